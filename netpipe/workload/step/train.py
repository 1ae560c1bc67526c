"""The training step as one compiled function, and random batches to time it without a loader."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array

from netpipe.errors import InputError
from netpipe.workload.config import BATCH_ARRAYS, StepConfig
from netpipe.workload.step.model import Parameters, forward, init_parameters
from netpipe.workload.step.presets import PRESET_BY_NAME, Architecture

Batch = Mapping[str, Array | np.ndarray]


class State(NamedTuple):
    """The parameters and the optimizer's moments, on the device; a step returns new ones."""

    parameters: Parameters
    optimizer: optax.OptState


Step = Callable[[State, Batch], tuple[State, dict[str, Array]]]


def make_step(
    config: StepConfig,
    sequence_length: int,
    batch_size: int,
    architecture: Architecture | None = None,
) -> tuple[State, Step]:
    """Build the initial state and `step(state, batch) -> (state, aux)` on jax's device.

    The step donates the state it is given. A batch maps `BATCH_ARRAYS` to numpy or jax arrays,
    each int32 (batch_size, sequence_length); otherwise tracing raises an InputError. `aux["loss"]`
    is the result of `loss_of`. The architecture is by default that of the preset.
    """
    architecture = architecture or PRESET_BY_NAME[config.preset].architecture
    batch_shape = batch_size, sequence_length
    optimizer = optax.adamw(config.learning_rate)
    dtype = compute_dtype(jax.devices()[0])

    @jax.jit
    def init() -> State:
        parameters = init_parameters(architecture, jax.random.key(config.seed))
        return State(parameters, optimizer.init(parameters))

    def step(state: State, batch: Batch) -> tuple[State, dict[str, Array]]:
        wanted = f"be int32 {batch_shape}"
        for key in BATCH_ARRAYS:
            if key not in batch:
                raise InputError("batch", key, wanted, "no such key")
            found = batch[key]
            if (found.shape, found.dtype) != (batch_shape, jnp.int32):
                raise InputError("batch", key, wanted, f"{found.dtype} {found.shape}")
        loss, gradients = jax.value_and_grad(loss_of)(
            state.parameters, batch, architecture=architecture, dtype=dtype
        )
        updates, moments = optimizer.update(gradients, state.optimizer, state.parameters)
        return State(optax.apply_updates(state.parameters, updates), moments), {"loss": loss}

    return init(), jax.jit(step, donate_argnames="state")


def compute_dtype(device: jax.Device) -> np.dtype:
    """Return bfloat16 if the device multiplies it in hardware, else float32.

    NVIDIA GPUs have it from compute capability 8.0 (Ampere) on. T4 and V100 have only float16,
    whose gradients need loss scaling; they compute in float32, which costs speed but keeps one
    recipe for all devices. CPUs emulate bfloat16, slower than float32.
    """
    if device.platform == "cpu":
        return np.dtype(np.float32)
    capability = str(getattr(device, "compute_capability", ""))
    major = capability.partition(".")[0]
    # TPUs have no compute capability and AMD's is a name such as gfx942: both have bfloat16.
    old = major.isdecimal() and int(major) < 8
    return np.dtype(np.float32 if old else jnp.bfloat16)


def loss_of(
    parameters: Parameters, batch: Batch, *, architecture: Architecture, dtype: np.dtype
) -> Array:
    """Return the mean cross-entropy in nats over the targets that are not padding, float32 ().

    The loss is 0 if there are no such targets. Padding has segmentation 0.
    """
    inputs, segments = jnp.asarray(batch["inputs"]), jnp.asarray(batch["inputs_segmentation"])
    positions = jnp.asarray(batch["inputs_position"])
    logits = forward(architecture, parameters, inputs, segments, positions, dtype)
    losses = optax.softmax_cross_entropy_with_integer_labels(logits, batch["targets"])
    counted = batch["targets_segmentation"] != 0
    return jnp.sum(losses, where=counted) / jnp.maximum(jnp.sum(counted), 1)


def synthetic_batch(
    config: StepConfig, sequence_length: int, batch_size: int, index: int = 0
) -> dict[str, Array]:
    """Draw a batch without padding, int32 (batch_size, sequence_length), on the default device.

    The tokens are uniformly random, since devices draw less power and clock higher on zeros.
    """
    key = jax.random.fold_in(jax.random.key(config.seed), index)
    vocabulary = PRESET_BY_NAME[config.preset].architecture.vocabulary
    tokens = jax.random.randint(key, (batch_size, sequence_length + 1), 0, vocabulary, jnp.int32)
    shape = (batch_size, sequence_length)
    positions = jnp.broadcast_to(jnp.arange(sequence_length, dtype=jnp.int32), shape)
    segments = jnp.ones(shape, jnp.int32)
    arrays = tokens[:, :-1], tokens[:, 1:], segments, segments, positions, positions
    return dict(zip(BATCH_ARRAYS, arrays, strict=True))
