"""The training step, on a model of a few thousand parameters."""

from functools import partial
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from netpipe.errors import InputError
from netpipe.workload.config import StepConfig
from netpipe.workload.step.presets import Architecture
from netpipe.workload.step.train import (
    Batch,
    State,
    Step,
    compute_dtype,
    loss_of,
    make_step,
    synthetic_batch,
)

FAST = StepConfig(learning_rate=1e-2)
SHAPE = (2, 16)


@pytest.fixture(scope="module")
def compiled(small: Architecture) -> tuple[State, Step]:
    """One state and step for all tests of this file: compiling takes seconds."""
    return make_step(FAST, SHAPE[1], SHAPE[0], small)


@pytest.fixture
def step(compiled: tuple[State, Step]) -> Step:
    """The training step of the small model."""
    return compiled[1]


@pytest.fixture
def state(compiled: tuple[State, Step]) -> State:
    """The first state, in buffers that the test may donate."""
    return jax.tree.map(jnp.copy, compiled[0])  # type: ignore[no-any-return]  # as it went in


def test_loss_falls_on_a_batch_that_is_learnt_by_heart(
    state: State, step: Step, batch: dict[str, np.ndarray]
) -> None:
    """Sixty steps on one batch bring the loss from about ln 11 to below half of it."""
    losses = []
    for _ in range(60):
        state, aux = step(state, batch)
        losses.append(float(aux["loss"]))
    assert losses[0] == pytest.approx(np.log(11), abs=1)
    assert losses[-1] < losses[0] / 2


def test_padding_has_no_loss(
    small: Architecture, state: State, batch: dict[str, np.ndarray]
) -> None:
    """Targets whose segmentation is 0 do not count, and a batch of padding has loss 0."""
    compiled = jax.jit(partial(loss_of, architecture=small, dtype=np.dtype(np.float32)))

    def loss(**changed: np.ndarray) -> float:
        return float(compiled(state.parameters, batch | changed))

    targets = batch["targets"].copy()
    targets[1, 12:] = 3
    assert loss(targets=targets) == loss()
    targets[1, 11] = (targets[1, 11] + 1) % 11
    assert loss(targets=targets) != loss()
    assert loss(targets_segmentation=np.zeros(SHAPE, np.int32)) == 0


def test_the_given_state_is_donated(state: State, step: Step, batch: Batch) -> None:
    """Every buffer of the state that went in is gone, and the new state has none of them."""
    second, _ = step(state, batch)
    assert {leaf.is_deleted() for leaf in jax.tree.leaves(state)} == {True}
    assert {leaf.is_deleted() for leaf in jax.tree.leaves(second)} == {False}


def test_the_step_compiles_once(state: State, step: Step, batch: dict[str, np.ndarray]) -> None:
    """Numpy batches and batches on the device, again and again, are one compiled program."""
    state, _ = step(state, batch)
    compilations: list[str] = []

    def note(event: str, duration_secs: float, **_: str | int) -> None:
        if event.startswith("/jax/core/compile/"):
            compilations.append(f"{event} {duration_secs}")

    jax.monitoring.register_event_duration_secs_listener(note)
    try:
        state, _ = step(state, batch)
        state, _ = step(state, jax.device_put(batch))
    finally:
        jax.monitoring.unregister_event_duration_listener(note)
    assert compilations == []


def test_the_same_seed_gives_the_same_parameters(small: Architecture, state: State) -> None:
    """Parameters are a function of the seed alone."""
    again, _ = make_step(FAST, SHAPE[1], SHAPE[0], small)
    other, _ = make_step(StepConfig(seed=FAST.seed + 1), SHAPE[1], SHAPE[0], small)
    first = np.asarray(state.parameters.embedding)
    np.testing.assert_array_equal(again.parameters.embedding, first)
    assert (np.asarray(other.parameters.embedding) != first).any()


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("inputs", np.zeros((2, 8), np.int32), r"inputs .*int32 \(2, 16\).*int32 \(2, 8\)"),
        ("targets", np.zeros(SHAPE, np.int16), r"targets .*int32.*int16 \(2, 16\)"),
        ("targets_segmentation", None, r"targets_segmentation.*no such"),
    ],
)
def test_a_batch_of_another_form_is_refused(
    state: State,
    step: Step,
    batch: dict[str, np.ndarray],
    key: str,
    value: np.ndarray | None,
    message: str,
) -> None:
    """A batch that would compile another program, or lacks a key, is bad input."""
    del batch[key]
    with pytest.raises(InputError, match=message):
        step(state, batch if value is None else {**batch, key: value})


def test_the_tiny_preset_trains_on_synthetic_batches() -> None:
    """`make_step` takes what `synthetic_batch` gives, and returns a state of the same shapes."""
    config = StepConfig()
    state, step = make_step(config, sequence_length=32, batch_size=2)
    batch = synthetic_batch(config, sequence_length=32, batch_size=2)
    after, aux = jax.eval_shape(step, state, batch)
    assert after == jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), state)
    assert aux == {"loss": jax.ShapeDtypeStruct((), jnp.float32)}


def test_synthetic_batches_are_random_and_shifted() -> None:
    """Tokens fill the vocabulary, differ by index, and the targets are the inputs' successors."""
    first, second = (synthetic_batch(StepConfig(), 256, 8, index) for index in (0, 1))
    inputs, targets = np.asarray(first["inputs"]), np.asarray(first["targets"])
    assert {(leaf.shape, str(leaf.dtype)) for leaf in first.values()} == {((8, 256), "int32")}
    assert (inputs.min(), inputs.max()) == (0, 266)
    np.testing.assert_array_equal(targets[:, :-1], inputs[:, 1:])
    assert (np.asarray(second["inputs"]) != inputs).mean() > 0.9


@pytest.mark.parametrize(
    ("platform", "capability", "dtype"),
    [
        ("cpu", None, np.float32),
        ("gpu", "7.0", np.float32),  # V100
        ("gpu", "7.5", np.float32),  # T4
        ("gpu", "8.0", jnp.bfloat16),  # A100
        ("gpu", "10.0", jnp.bfloat16),  # B200
        ("gpu", "gfx942", jnp.bfloat16),  # MI300X
        ("tpu", None, jnp.bfloat16),
    ],
)
def test_precision_is_what_the_device_has(
    platform: str, capability: str | None, dtype: type[np.generic]
) -> None:
    """Bfloat16 where it is in hardware, float32 elsewhere."""
    device = SimpleNamespace(platform=platform)
    if capability is not None:
        device.compute_capability = capability
    assert compute_dtype(device) == np.dtype(dtype)


def test_bfloat16_gives_nearly_the_loss_of_float32(
    small: Architecture, state: State, batch: dict[str, np.ndarray]
) -> None:
    """The precision of the products moves the loss by less than 2%."""
    wide, narrow = (
        float(
            jax.jit(partial(loss_of, architecture=small, dtype=np.dtype(dtype)))(
                state.parameters, batch
            )
        )
        for dtype in (np.float32, jnp.bfloat16)
    )
    assert narrow == pytest.approx(wide, rel=0.02)
    assert narrow != wide
