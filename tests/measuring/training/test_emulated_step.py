"""The accelerator that is only a clock: asynchronous, in order, and waited for as a real one."""

import gc
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from netpipe.errors import MisuseError
from netpipe.measuring.training.emulated_step import EmulatedStep, Engines
from netpipe.measuring.training.step_runner import compilation_count

BATCH = {"x": np.zeros((4, 2), np.int32)}
STEP_S = 0.25  # so long that a busy machine does not sleep through it


def started(step_s: float = STEP_S, real: Any = None) -> tuple[EmulatedStep, Any]:
    """Make a device and run its first step, which compiles, to the end; return its state too."""
    step = EmulatedStep(step_s, real)
    state, aux = step(step.initial_state(), BATCH)
    jax.block_until_ready(aux)
    return step, state


def test_deadlines_are_exact_on_average() -> None:
    """Steps below a millisecond follow each other without a gap, whenever each is dispatched."""
    engines = Engines(step_s=0.0003)
    dispatched_ns = [0, 0, 100_000, 899_999, 1_100_000]
    done_ns = [engines.dispatch(now_ns, 0) for now_ns in dispatched_ns]
    assert done_ns == [300_000, 600_000, 900_000, 1_200_000, 1_500_000]


def test_an_idle_engine_starts_at_the_dispatch() -> None:
    """The time between the end of a step and the next dispatch is lost."""
    engines = Engines(step_s=0.0003)
    assert engines.dispatch(0, 0) == 300_000
    assert engines.dispatch(1_000_000, 0) == 1_300_000


def test_copies_run_beside_steps_and_behind_each_other() -> None:
    """A step begins when its copy and the step before it are done, whichever is later."""
    engines = Engines(step_s=0.001, copy_bytes_per_s=1e9)  # a byte takes a nanosecond
    assert engines.dispatch(0, 400_000) == 1_400_000
    # Copied from 0.4 to 0.8 ms: hidden behind the first step.
    assert engines.dispatch(100_000, 400_000) == 2_400_000
    # Copied from 0.8 to 5.8 ms: the step waits for it.
    assert engines.dispatch(200_000, 5_000_000) == 6_800_000
    # Resident: it waits for nothing but the step before.
    assert engines.dispatch(300_000, 0) == 7_800_000


@pytest.fixture
def copied(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The bytes that each step copied."""
    seen: list[int] = []

    def dispatch(_: Engines, now_ns: int, copied_bytes: int) -> int:
        seen.append(copied_bytes)
        return now_ns

    monkeypatch.setattr(Engines, "dispatch", dispatch)
    return seen


def test_a_resident_batch_is_copied_once(copied: list[int]) -> None:
    """A host batch is copied at every step, a device's array only when it is seen first."""
    step = EmulatedStep(0.001)
    state = step.initial_state()
    host = {"x": np.zeros((4, 2), np.int32), "name": "a", "number": 3}
    resident = {**host, "x": jnp.asarray(host["x"])}
    another = {**host, "x": jnp.asarray(host["x"])}
    for batch in (host, host, resident, resident, another, resident):
        state, _ = step(state, batch)
    assert copied == [32, 32, 32, 0, 32, 0]


class Tensor:
    """An array of another library."""

    def __init__(self, values: Any) -> None:
        self._values = values

    def __array__(self, *_: Any, **__: Any) -> Any:
        """Hand over the values."""
        return self._values


def test_an_array_of_any_library_is_copied(copied: list[int]) -> None:
    """As a torch tensor is: it compiles as the array that it holds, and the step sees that."""
    step = EmulatedStep(0.001, lambda: (0, lambda state, batch: (state, {"loss": batch["x"] * 2})))
    state = step.initial_state()
    for rows in (4, 4, 6):
        state, aux = step(state, {"x": Tensor(np.zeros((rows, 2), np.float32))})
        assert aux["loss"].shape == (rows, 2)
    assert copied == [32, 32, 48]


@pytest.mark.parametrize("values", [["a", "b"], [b"a", b"b"], [None, {}], ["2024-01-01"]])
def test_leaves_that_a_device_cannot_hold_stay(copied: list[int], values: list[Any]) -> None:
    """Text, dates and objects ride in a batch without being copied, and the step may hold them."""
    kept = np.array(values, "M8[D]" if values == ["2024-01-01"] else None)
    step = EmulatedStep(0.001, lambda: (0, lambda state, batch: (state, {"loss": batch["x"]})))
    _, aux = step(step.initial_state(), {**BATCH, "kept": kept, "tensor": Tensor(kept)})
    assert aux["loss"].shape == (4, 2)
    assert copied == [32]


def test_resident_batches_are_not_kept_alive(copied: list[int]) -> None:
    """An array that nobody has any more is forgotten, and one in its place is copied."""
    step = EmulatedStep(0.001)
    state = step.initial_state()
    for number in range(4):
        state, _ = step(state, {"x": jnp.full((2,), number)})
        gc.collect()
        assert len(step._on_device) == 0
    assert copied == [8, 8, 8, 8]


def test_a_copy_delays_a_step() -> None:
    """With a bandwidth, the step takes the time of its copy longer."""
    step = EmulatedStep(0.001, copy_bytes_per_s=128)  # 32 bytes: a quarter of a second
    state = step.initial_state()
    begun_ns = time.monotonic_ns()
    _, aux = step(state, BATCH)
    jax.block_until_ready(aux)
    assert time.monotonic_ns() - begun_ns >= 251_000_000


def test_a_step_is_dispatched_before_it_is_done() -> None:
    """The call returns at once; its result is ready when the clock says so and not before."""
    step, state = started()
    _, aux = step(state, BATCH)
    assert not aux["loss"].is_ready()
    aux["loss"].block_until_ready()
    assert time.monotonic_ns() >= step._engines.free_ns
    assert aux["loss"].is_ready()


@pytest.mark.parametrize(
    "read",
    [
        float,
        bool,
        np.asarray,
        jax.device_get,
        jax.block_until_ready,
        "{}".format,
        lambda loss: loss.item(),
        lambda loss: loss.block_until_ready(),
        lambda loss: float(loss + 1),
        lambda loss: jax.block_until_ready(jax.jit(jnp.square)(loss)),
    ],
    ids=[
        "float",
        "bool",
        "asarray",
        "device_get",
        "block",
        "format",
        "item",
        "method",
        "sum",
        "jit",
    ],
)
def test_whatever_reads_a_loss_waits_for_it(read: Callable[[Any], object]) -> None:
    """All ways to look at a value wait until the device is done with it."""
    step, state = started()
    _, aux = step(state, BATCH)
    assert not aux["loss"].is_ready()
    read(aux["loss"])
    assert time.monotonic_ns() >= step._engines.free_ns


def test_a_state_waits_as_the_loss_does() -> None:
    """Who waits for the state instead waits just as long."""
    step, state = started()
    state, aux = step(state, BATCH)
    jax.block_until_ready(state)
    assert time.monotonic_ns() >= step._engines.free_ns
    assert aux["loss"].is_ready()


def test_the_runtime_bounds_how_many_are_in_flight() -> None:
    """Dispatching runs ahead, but by no more than the runtime allows a real device."""
    step, state = started(0.01)
    losses = []
    for _ in range(80):
        state, aux = step(state, BATCH)
        losses.append(aux["loss"])
    assert sum(not loss.is_ready() for loss in losses) <= 40
    jax.block_until_ready(losses)


def test_waiting_uses_next_to_no_cpu() -> None:
    """An emulated device computes for a second and uses less than half a second of CPU time."""
    step, state = started()
    begun_cpu_s = time.process_time()
    for _ in range(4):
        state, aux = step(state, BATCH)
    jax.block_until_ready(aux)
    assert time.process_time() - begun_cpu_s < 0.5 * 4 * STEP_S


def batch_of(rows: int, dtype: Any = np.int32, **more: object) -> dict[str, Any]:
    """Make a batch of so many rows."""
    return {"x": np.zeros((rows, 2), dtype), **more}


@pytest.mark.parametrize(
    ("batch", "compiles"),
    [
        (batch_of(4), 0),
        (batch_of(5), 1),
        (batch_of(4, np.float32), 1),
        ({"x": jnp.zeros((4, 2), jnp.int32)}, 0),
        (batch_of(4, np.int64), 0),  # which jax makes int32
        (batch_of(4, y=np.zeros(1, np.int32)), 1),
    ],
    ids=["same", "rows", "dtype", "device", "int64", "key"],
)
def test_a_new_shape_compiles_anew(batch: dict[str, Any], compiles: int) -> None:
    """As jax.jit would the real step: for a new shape, dtype or structure, once."""
    step, state = started(0.0001)
    count = compilation_count()
    before = count()
    for _ in range(2):
        state, aux = step(state, batch)
        jax.block_until_ready(aux)
        assert count() - before == compiles


def test_leaves_that_are_not_arrays_do_not_compile() -> None:
    """File names and step numbers may ride in a batch, and change."""
    step, state = started(0.0001)
    count = compilation_count()
    state, _ = step(state, batch_of(4, name="a", number=1))
    before = count()
    step(state, batch_of(4, name="b", number=2))
    assert count() == before


def test_steps_are_done_in_order_and_one_at_a_time() -> None:
    """Three steps take three step times; when one is done, so are those before it."""
    step, state = started()
    begun_ns = time.monotonic_ns()
    losses = []
    for _ in range(3):
        state, aux = step(state, BATCH)
        losses.append(aux["loss"])
    assert not losses[2].is_ready()
    losses[1].block_until_ready()
    assert losses[0].is_ready()
    losses[2].block_until_ready()
    assert time.monotonic_ns() - begun_ns >= 3 * STEP_S * 1e9


def test_an_idle_device_does_not_catch_up() -> None:
    """A step after a pause takes its time from its dispatch, not from the step before."""
    step, state = started(0.01)
    dispatched_ns = time.monotonic_ns()
    _, aux = step(state, BATCH)
    jax.block_until_ready(aux)
    assert time.monotonic_ns() >= dispatched_ns + 0.01 * 1e9


def test_without_a_step_to_stand_in_for_there_is_a_loss() -> None:
    """The aux is then one float32."""
    step = EmulatedStep(0.001)
    _, aux = step(step.initial_state(), BATCH)
    assert list(aux) == ["loss"]
    assert (aux["loss"].shape, aux["loss"].dtype) == ((), jnp.float32)


def test_the_aux_has_the_shapes_of_the_real_step() -> None:
    """The real step is traced on the real state and batch, once, and never run."""
    seen: list[bool] = []

    def real_step(state: Any, batch: Any) -> tuple[Any, Any]:
        seen.append(isinstance(batch["x"], jax.core.Tracer))
        loss = (batch["x"] @ state).sum(axis=1)
        return state, {"loss": loss, "more": (jnp.int32(3), loss.astype(jnp.bfloat16), None)}

    step, state = started(0.001, lambda: (jnp.ones((2, 5)), real_step))
    _, aux = step(state, BATCH)
    described = jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype), aux)
    assert described == {
        "loss": ((4,), jnp.float32),
        "more": (((), jnp.int32), ((4,), jnp.bfloat16), None),
    }
    assert seen == [True]


def test_the_aux_follows_the_shape_of_the_batch() -> None:
    """A loss for each row has as many as the batch."""
    step, state = started(0.001, lambda: (0, lambda state, batch: (state, {"loss": batch["x"]})))
    for rows in (4, 6):
        state, aux = step(state, batch_of(rows, name="a"))
        assert aux["loss"].shape == (rows, 2)


def test_a_large_state_is_never_made() -> None:
    """The factory is traced too: its state needs no memory."""

    def factory() -> tuple[Any, Any]:
        state = jnp.zeros((1 << 30, 1 << 10))
        return state, lambda state, batch: (state, {"loss": state.sum() + batch["x"].sum()})

    _, state = started(0.001, factory)
    assert len(jax.tree.leaves(state)) == 1


def test_a_factory_that_cannot_be_traced_is_run() -> None:
    """One that reads values makes its state, and the step is traced on it."""
    made: list[bool] = []

    def factory() -> tuple[Any, Any]:
        weights = float(jnp.ones(()) + 1)
        made.append(True)
        return {"w": weights, "name": "a"}, lambda state, batch: (state, {"loss": batch["x"] * 2})

    step, state = started(0.001, factory)
    _, aux = step(state, BATCH)
    assert aux["loss"].shape == (4, 2)
    assert made == [True]


def test_a_step_that_reads_values_is_misuse() -> None:
    """Only a step that can be traced can be stood in for; the message says what else to do."""

    def reads(state: Any, batch: Any) -> tuple[Any, Any]:
        return state, {"loss": float(batch["x"].sum())}

    step = EmulatedStep(0.001, lambda: (0, reads))
    with pytest.raises(MisuseError, match=r"traced: .* Leave the") as raised:
        step(step.initial_state(), BATCH)
    assert "\n" not in str(raised.value)


def test_an_error_of_the_step_is_its_own() -> None:
    """What the real step says about a batch gets out as it is."""

    def refuses(*_: object) -> tuple[Any, Any]:
        raise KeyError("targets")

    step = EmulatedStep(0.001, lambda: (0, refuses))
    with pytest.raises(KeyError, match="targets"):
        step(step.initial_state(), BATCH)


def test_a_foreign_state_is_misuse() -> None:
    """A loop that makes a state of its own cannot be run without the real step."""
    with pytest.raises(MisuseError, match="found dict"):
        EmulatedStep(0.001)({}, BATCH)  # type: ignore[arg-type]


def test_a_step_says_that_it_can_only_be_called() -> None:
    """Nothing of a jitted function is there to be asked for."""
    step = EmulatedStep(0.001)
    with pytest.raises(MisuseError, match=r"step\.lower"):
        step.lower  # noqa: B018  # reading it is the point
    assert not hasattr(step, "__wrapped__")


def test_a_factory_without_a_step_is_misuse() -> None:
    """What is stood in for must be a step all the same."""
    step = EmulatedStep(0.001, lambda: None)  # type: ignore[arg-type, return-value]
    with pytest.raises(MisuseError, match="found NoneType"):
        step(step.initial_state(), BATCH)
