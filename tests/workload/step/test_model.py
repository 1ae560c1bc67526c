"""The positions that each position of the model sees."""

from collections.abc import Callable
from functools import partial

import jax
import numpy as np
import pytest

from netpipe.workload.step.model import forward, init_parameters
from netpipe.workload.step.presets import Architecture

Logits = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]


@pytest.fixture(scope="module")
def logits(small: Architecture) -> Logits:
    """The small model as a function of tokens, segments and positions, each int32 (1, S)."""
    parameters = jax.jit(partial(init_parameters, small))(jax.random.key(1))

    @jax.jit
    def run(tokens: jax.Array, segments: jax.Array, positions: jax.Array) -> jax.Array:
        return forward(small, parameters, tokens, segments, positions, np.dtype(np.float32))

    return lambda *arrays: np.asarray(run(*arrays))


TOKENS = np.random.default_rng(2).integers(0, 11, (1, 12), dtype=np.int32)
ONE_SEGMENT = np.ones((1, 12), np.int32)
POSITIONS = np.arange(12, dtype=np.int32)[None]


def _changed(at: int) -> np.ndarray:
    tokens = TOKENS.copy()
    tokens[0, at] = (tokens[0, at] + 1) % 11
    return tokens


def test_a_later_token_changes_nothing_before_it(logits: Logits) -> None:
    """Changing token 7 leaves the logits of 0 to 6 as they are, and changes 7 to 11."""
    before = logits(TOKENS, ONE_SEGMENT, POSITIONS)
    after = logits(_changed(7), ONE_SEGMENT, POSITIONS)
    np.testing.assert_array_equal(after[0, :7], before[0, :7])
    assert (after[0, 7:] != before[0, 7:]).any(axis=-1).all()


def test_segments_do_not_see_each_other(logits: Logits) -> None:
    """A packed sequence gives each segment the logits that it has alone."""
    packed = logits(TOKENS, np.repeat([[1, 2]], 6, axis=1).astype(np.int32), POSITIONS % 6)
    alone = [logits(part, ONE_SEGMENT[:, :6], POSITIONS[:, :6]) for part in np.split(TOKENS, 2, 1)]
    np.testing.assert_allclose(packed, np.concatenate(alone, axis=1), rtol=1e-4, atol=1e-5)


def test_padding_is_neither_seen_nor_infinite(logits: Logits) -> None:
    """Changing padding leaves the logits of tokens as they are, and padding's own are finite."""
    segments = ONE_SEGMENT.copy()
    segments[0, :2] = segments[0, 9:] = 0
    before = logits(TOKENS, segments, POSITIONS)
    np.testing.assert_array_equal(logits(_changed(1), segments, POSITIONS)[0, 2:9], before[0, 2:9])
    assert np.isfinite(before).all()


def test_positions_matter_only_relative_to_each_other(logits: Logits) -> None:
    """Rotary positions: a shift of all leaves the logits, a change of the gaps does not."""
    before = logits(TOKENS, ONE_SEGMENT, POSITIONS)
    shifted = logits(TOKENS, ONE_SEGMENT, POSITIONS + 5)
    stretched = logits(TOKENS, ONE_SEGMENT, POSITIONS * 2)
    np.testing.assert_allclose(shifted, before, rtol=1e-3, atol=1e-5)
    assert np.abs(stretched - before).max() > 1e-2
