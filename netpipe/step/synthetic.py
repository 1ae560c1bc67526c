"""Random batches on the device, to time the step without loading."""

import jax
import jax.numpy as jnp
from jax import Array

from netpipe.config import StepConfig
from netpipe.step.presets import PRESET_BY_NAME


def synthetic_batch(
    config: StepConfig, sequence_length: int, batch_size: int, index: int = 0
) -> dict[str, Array]:
    """Draw a batch without padding on jax's default device.

    The tokens are uniformly random, since devices draw less power and clock higher on zeros.
    Batches of at least two values of `index` should alternate.

    Returns:
        The six keys of a batch, each int32 (batch_size, sequence_length); the targets are the
        inputs shifted by one.
    """
    key = jax.random.fold_in(jax.random.key(config.seed), index)
    vocabulary = PRESET_BY_NAME[config.preset].architecture.vocabulary
    tokens = jax.random.randint(key, (batch_size, sequence_length + 1), 0, vocabulary, jnp.int32)
    shape = (batch_size, sequence_length)
    positions = jnp.broadcast_to(jnp.arange(sequence_length, dtype=jnp.int32), shape)
    segments = jnp.ones(shape, jnp.int32)
    return {
        "inputs": tokens[:, :-1],
        "targets": tokens[:, 1:],
        "inputs_segmentation": segments,
        "targets_segmentation": segments,
        "inputs_position": positions,
        "targets_position": positions,
    }
