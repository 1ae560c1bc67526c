"""Tokens per second and MFU of the real loop, or the reason that they are not known."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import cycle, repeat
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from netpipe.jobs.registry import run_job
from netpipe.jobs.request import partial_result_file
from netpipe.jobs.targets import Factories
from netpipe.measuring.measure_request import MeasureRequest
from netpipe.measuring.rates import count_by_xla
from netpipe.measuring.training.step_runner import StepRunner, count_batch
from netpipe.measuring.training.token_counts import BY_ELEMENTS, Counted, count_tokens
from netpipe.results.measurement import Device
from tests.fakes import FakeClock
from tests.measurements import CPU, EMULATED, GPU
from tests.measuring.conftest import LOAD_S, STEP_S, Rehearse
from tests.measuring.simulated import paced

REAL_S = LOAD_S + STEP_S
H200_FLOPS = 989e12
MIG = Device("a100-sxm-40gb-1g.5gb-x1", "NVIDIA A100-SXM4-40GB MIG 1g.5gb", "gpu")
X = np.ones((8, 64), np.float32)
W = jnp.ones((64, 64), jnp.float32)


def batches(clock: FakeClock, *tokens: int) -> Callable[[], Iterator[Any]]:
    """Return a loader of batches of 2 x 4 positions with these numbers of tokens, in turn."""

    def loader() -> Iterator[Any]:
        for count in cycle(tokens):
            clock.sleep(LOAD_S)
            inputs = np.arange(8).reshape(2, 4)
            yield {"inputs": inputs, "inputs_segmentation": (inputs < count).astype(np.int32)}

    return loader


def test_tokens_are_those_of_the_real_loop(clock: FakeClock, rehearse: Rehearse) -> None:
    """Tokens without padding count, over the time of a real step."""
    found = rehearse(loader=batches(clock, 6))
    assert found.tokens_per_s is not None
    assert found.tokens_per_s.median == pytest.approx(6 / REAL_S)
    assert found.tokens_per_s.n == found.step_s.n
    assert found.tokens_unit == "tokens"


def test_tokens_are_the_mean_over_batches(clock: FakeClock, rehearse: Rehearse) -> None:
    """The batches of all rounds count, not only the first two with few tokens."""
    found = rehearse(loader=batches(clock, 1, 1, *[8] * 10_000))
    assert found.tokens_per_s is not None
    assert found.tokens_per_s.median * REAL_S > 4.5


def test_a_batch_without_a_segmentation_counts_examples(rehearse: Rehearse) -> None:
    """The unit is its rows, and each device has its part of them."""
    found = rehearse(device=replace(GPU, count=8))
    assert found.tokens_per_s is not None
    assert found.tokens_per_s.median == pytest.approx(2 / REAL_S)
    assert found.tokens_unit == "examples"
    assert found.tokens_per_s_per_device is not None
    assert found.tokens_per_s_per_device.median == pytest.approx(2 / REAL_S / 8)


def test_batches_without_arrays_have_no_tokens(clock: FakeClock, rehearse: Rehearse) -> None:
    """The measurement has the reason instead of 0."""
    found = rehearse(loader=lambda: paced(clock, repeat(LOAD_S), {"text": "x"}))
    assert (found.tokens_per_s, found.tokens_per_s_per_device) == (None, None)
    assert "no arrays" in found.not_known["tokens_per_s"]
    empty = rehearse(loader=batches(clock, 0))
    assert empty.tokens_per_s is None
    assert "no tokens" in empty.not_known["tokens_per_s"]


@pytest.mark.parametrize("flops", [1e12, lambda: 1e12], ids=["number", "callable"])
def test_mfu_is_over_the_peak_of_all_devices(rehearse: Rehearse, flops: Any) -> None:
    """The MFU is the given FLOPs over the time of a real step and the peak in the table."""
    found = rehearse(device=replace(GPU, count=2), flops_per_step=flops)
    assert found.mfu is not None
    assert found.mfu.median == pytest.approx(1e12 / REAL_S / (2 * H200_FLOPS))
    assert "mfu" not in found.not_known


def test_flops_are_counted_where_none_are_given(clock: FakeClock, rehearse: Rehearse) -> None:
    """XLA counts the FLOPs of a step without a loop."""

    def step(state: Any, batch: Any) -> Any:
        clock.sleep(STEP_S)
        return state, {"loss": (batch["x"] @ state).sum()}

    found = rehearse(loader=lambda: paced(clock, repeat(LOAD_S), {"x": X}), step=lambda: (W, step))
    assert found.mfu is not None
    assert found.mfu.median * REAL_S * H200_FLOPS == pytest.approx(2 * 8 * 64 * 64, rel=0.1)


@pytest.mark.parametrize("device", [CPU, MIG], ids=["cpu", "mig"])
def test_without_a_peak_no_step_is_analysed(rehearse: Rehearse, device: Device) -> None:
    """No peak is assumed for a CPU or a part of a GPU, so the FLOPs are not needed."""
    found = rehearse(device=device, flops_per_step=lambda: pytest.fail("asked"))
    assert found.mfu is None
    assert found.not_known["mfu"] == f"no peak is known for {device.key}"


def test_the_mfu_of_an_emulated_device_is_derived(rehearse: Rehearse) -> None:
    """The MFU is the assumed MFU times S0 / R, and unknown for a given step time."""
    found = rehearse(device=EMULATED, assumed_mfu=0.4)
    assert found.mfu is not None
    assert found.mfu.median == pytest.approx(0.4 * STEP_S / REAL_S)
    of_a_time = rehearse(device=EMULATED)
    assert of_a_time.mfu is None
    assert of_a_time.not_known["mfu"] == (
        "no peak is known for emulated-30ms; name an accelerator, such as emulated:h100"
    )


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"flops_per_step": 0.0}, "must be above 0, and finite; found 0"),
        ({"flops_per_step": lambda: 1 / 0}, "ZeroDivisionError"),
    ],
)
def test_a_measurement_outlives_wrong_flops(
    rehearse: Rehearse, given: dict[str, Any], why: str
) -> None:
    """The measurement has the reason, and the flag to give."""
    found = rehearse(**given)
    assert found.mfu is None
    assert why in found.not_known["mfu"]
    assert "give --flops-per-step" in found.not_known["mfu"]


def runner_of(step: Callable[[Any, Any], Any], *, is_jitted: bool = True) -> StepRunner:
    """Return a runner of a step on a float32 (8, 64) and a state of (64, 64)."""
    made = jax.jit(step, donate_argnums=0) if is_jitted else step
    return StepRunner(lambda: (W, made), [{"x": X}] * 2, FakeClock())


def matmul(state: Any, batch: Any) -> Any:
    """Multiply once."""
    return state, {"loss": batch["x"] @ state}


def looped(state: Any, batch: Any) -> Any:
    """Multiply five times, in a loop."""
    found = jax.lax.fori_loop(0, 5, lambda _, x: x @ state, batch["x"])
    return state, {"loss": found}


def solved(state: Any, batch: Any) -> Any:
    """Call a library."""
    return state, {"loss": batch["x"] @ jnp.linalg.cholesky(state)}


@pytest.mark.parametrize("is_jitted", [True, False])
def test_xla_counts_a_step_without_compiling_it(
    monkeypatch: pytest.MonkeyPatch, *, is_jitted: bool
) -> None:
    """A jitted step is lowered, another one is jitted first; compiling could take minutes."""
    monkeypatch.setattr(jax.stages.Lowered, "compile", lambda *_, **__: pytest.fail("compiled"))
    flops, why_not = count_by_xla(runner_of(matmul, is_jitted=is_jitted))
    assert (flops, why_not) == (2 * 8 * 64 * 64, "")


@pytest.mark.parametrize(
    ("step", "why"),
    [
        (looped, "the step has a loop, whose body XLA counts once"),
        (solved, "XLA does not count all FLOPs of lapack_spotrf_ffi in the step"),
    ],
)
def test_a_step_of_which_xla_misses_a_part_is_not_counted(step: Any, why: str) -> None:
    """The body of a loop counts once, the code of another library not at all."""
    assert count_by_xla(runner_of(step)) == (None, why)


def test_a_step_that_cannot_be_traced_is_measured(clock: FakeClock, rehearse: Rehearse) -> None:
    """The measurement has its error as the reason."""

    def step(state: Any, batch: Any) -> Any:
        clock.sleep(STEP_S)
        return state, {"loss": jnp.float32(float(jnp.sum(batch["x"])))}

    found = rehearse(step=lambda: (0, step))
    assert found.mfu is None
    assert "the step cannot be analysed: ConcretizationTypeError" in found.not_known["mfu"]


def test_a_measurement_is_written_before_its_step_is_analysed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An analysis that does not end loses no measurement."""
    request = MeasureRequest(result=str(tmp_path / "result.json"), budget_s=0.1)
    before: list[Any] = []

    def note_result(_: object) -> None:
        before.append(json.loads(partial_result_file(request).read_text())["measurement"])

    monkeypatch.setattr("netpipe.measuring.measure_job.local_device", lambda _: GPU)
    monkeypatch.setattr("netpipe.measuring.protocol.find_flops", note_result)
    run_job(request, lambda: Factories(lambda: repeat({"x": X}), lambda: (W, matmul)))
    [found] = before
    assert found["not_known"]["mfu"] == "XLA's analysis of the step did not end"


class Packed(NamedTuple):
    """A batch with named fields."""

    inputs: np.ndarray
    inputs_segmentation: np.ndarray


def test_the_fields_of_a_named_tuple_are_names() -> None:
    """The segmentation in a named tuple marks the padding."""
    packed = Packed(np.zeros((2, 4)), np.array([[1, 1, 2, 0], [1, 0, 0, 0]]))
    counted = count_batch(packed)
    assert counted is not None
    assert (counted.tokens, counted.slots) == (4, 8)


def test_the_first_array_is_the_first_in_the_batchs_own_order() -> None:
    """A dict keeps its order, and nested names are those of netpipe throughput."""
    batch = {"x": (np.zeros((2, 3)), 1), "label": np.zeros(2)}
    assert count_batch(batch) == count_tokens(batch) == Counted(2, 6, 6, BY_ELEMENTS)
    masked = {"text": [{"ids": X, "attention_mask": np.ones_like(X)}]}
    assert count_batch(masked) == count_tokens(masked)


def test_only_readable_arrays_are_counted() -> None:
    """A batch that a step has donated does not count."""
    given = {"x": jnp.ones((2, 3))}
    assert count_batch(given) is not None
    given["x"].delete()
    assert count_batch({"attention_mask": given["x"], "ids": given["x"]}) is None
