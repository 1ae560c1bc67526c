"""A model small enough to compile in a second, and batches for it."""

import jax
import numpy as np
import pytest

from netpipe.workload.step.presets import Architecture

BATCH_SHAPE = (2, 16)


@pytest.fixture(scope="session")
def small() -> Architecture:
    """Two layers, two query heads on one key-value head, 11 tokens."""
    return Architecture(layers=2, width=8, heads=2, mlp_width=12, vocabulary=11)


@pytest.fixture
def batch() -> dict[str, jax.Array | np.ndarray]:
    """Two sequences of 16 tokens, int32, the last 4 of the second padding."""
    tokens = np.random.default_rng(0).integers(0, 11, (2, 17), dtype=np.int32)
    segments = np.ones(BATCH_SHAPE, np.int32)
    segments[1, 12:] = 0
    positions = np.broadcast_to(np.arange(16, dtype=np.int32), BATCH_SHAPE)
    return {
        "inputs": tokens[:, :-1],
        "targets": tokens[:, 1:],
        "inputs_segmentation": segments,
        "targets_segmentation": segments,
        "inputs_position": positions,
        "targets_position": positions,
    }
