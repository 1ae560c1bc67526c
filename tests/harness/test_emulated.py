"""The accelerator that is only a clock: asynchronous, in order, and waited for as a real one."""

import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from netpipe.harness.emulated import EmulatedStep, parse_accelerator, parse_accelerators
from netpipe.harness.errors import MisuseError

BATCH = {"x": np.zeros((4, 2), np.int32)}
STEP_S = 0.25  # so long that a busy machine does not sleep through it


def started(step_s: float = STEP_S, real: Any = None) -> tuple[EmulatedStep, Any]:
    """Make a device and run its first step, which compiles, to the end; return its state too."""
    step = EmulatedStep(step_s, real)
    state, aux = step(step.initial_state(), BATCH)
    jax.block_until_ready(aux)
    return step, state


@pytest.mark.parametrize(
    ("text", "step_s", "key"),
    [
        ("emulated:36ms", 0.036, "emulated-36ms"),
        ("emulated:1.5ms", 0.0015, "emulated-1.5ms"),
        ("emulated:2s", 2.0, "emulated-2s"),
        ("emulated:500us", 0.0005, "emulated-500us"),
    ],
)
def test_an_accelerator_is_named_by_its_step_time(text: str, step_s: float, key: str) -> None:
    """The name holds a number and a unit, and gives the key of its baselines."""
    accelerator = parse_accelerator(text)
    assert accelerator is not None
    assert (accelerator.name, accelerator.key) == (text, key)
    assert accelerator.step_s == pytest.approx(step_s)


def test_auto_is_what_jax_finds() -> None:
    """`auto` emulates nothing."""
    assert parse_accelerator("auto") is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "AUTO",
        "emulated",
        "emulated:36",
        "emulated:0ms",
        "emulated:-1ms",
        "emulated:1e3ms",
        "emulated:1h",
        "emulated:36ms ",
        "36ms",
    ],
)
def test_another_name_is_misuse(text: str) -> None:
    """What is neither `auto` nor a time above 0 is refused with an example."""
    with pytest.raises(MisuseError, match="must be auto or emulated:<time>, as emulated:36ms"):
        parse_accelerator(text)


def test_a_list_of_names_may_be_spaced() -> None:
    """Names are split at commas; space around them is no part of them."""
    assert parse_accelerators("auto, emulated:36ms") == ("auto", "emulated:36ms")
    assert parse_accelerators("auto") == ("auto",)


@pytest.mark.parametrize("text", ["", "auto,", "auto,36ms"])
def test_every_name_of_a_list_is_checked(text: str) -> None:
    """One that cannot be read spoils the list."""
    with pytest.raises(MisuseError, match="must be auto or emulated:<time>"):
        parse_accelerators(text)


def test_a_step_is_dispatched_before_it_is_done() -> None:
    """The call returns at once; its result is ready when the clock says so and not before."""
    step, state = started()
    _, aux = step(state, BATCH)
    assert not aux["loss"].is_ready()
    aux["loss"].block_until_ready()
    assert time.monotonic_ns() >= step._free_ns
    assert aux["loss"].is_ready()


@pytest.mark.parametrize(
    "read",
    [float, bool, np.asarray, jax.device_get, "{}".format, lambda loss: loss.item()],
    ids=["float", "bool", "asarray", "device_get", "format", "item"],
)
def test_whatever_reads_a_loss_waits_for_it(read: Callable[[Any], object]) -> None:
    """All ways to look at a value wait until the device is done with it."""
    step, state = started()
    _, aux = step(state, BATCH)
    assert not aux["loss"].is_ready()
    read(aux["loss"])
    assert time.monotonic_ns() >= step._free_ns
    assert aux["loss"].is_ready()


def test_what_is_computed_from_a_loss_waits_too() -> None:
    """An operation on a loss that is not ready is dispatched, and waits for it when read."""
    step, state = started()
    _, aux = step(state, BATCH)
    later = aux["loss"] + 1
    jax.block_until_ready(later)
    assert time.monotonic_ns() >= step._free_ns


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


def test_an_idle_device_owes_no_time() -> None:
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
    described = jax.tree.map(lambda one: (one.shape, one.dtype), aux)
    assert described == {
        "loss": ((4,), jnp.float32),
        "more": (((), jnp.int32), ((4,), jnp.bfloat16), None),
    }
    assert seen == [True]


def test_a_factory_of_no_step_is_misuse() -> None:
    """What is stood in for must be a step all the same."""
    step = EmulatedStep(0.001, lambda: None)  # type: ignore[arg-type, return-value]
    with pytest.raises(MisuseError, match=r"must return \(state, step\); found NoneType"):
        step(step.initial_state(), BATCH)
