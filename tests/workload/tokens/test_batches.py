"""Sequences as they travel, and the batches they become."""

from itertools import combinations

import numpy as np

from netpipe.workload.tokens.batches import Sequences, sequences_of, widen

# Two sequences with room for 6: contexts of 2 and 3 tokens and one of 6.
SEQUENCES = sequences_of(
    np.arange(1, 12, dtype=np.int16), np.array([2, 1]), np.array([2, 3, 6]), room=6
)


def test_segments_and_positions() -> None:
    """Segments count from 1, positions restart with each, and padding has neither."""
    batch = widen(SEQUENCES)
    assert batch["inputs"].tolist() == [[1, 2, 3, 4, 5], [6, 7, 8, 9, 10]]
    assert batch["inputs_segmentation"].tolist() == [[1, 1, 2, 2, 2], [1] * 5]
    assert batch["inputs_position"].tolist() == [[0, 1, 0, 1, 2], [0, 1, 2, 3, 4]]


def test_padding_has_no_position() -> None:
    """Padding of any length has position 0."""
    batch = widen(sequences_of(np.array([9, 9], np.int16), np.array([1]), np.array([2]), room=6))
    assert batch["inputs_position"].tolist() == [[0, 1, 0, 0, 0]]
    assert batch["inputs_segmentation"].tolist() == [[1, 1, 0, 0, 0]]
    assert batch["targets_segmentation"].tolist() == [[1, 0, 0, 0, 0]]


def test_no_target_crosses_a_segment() -> None:
    """Targets are one ahead; the one that belongs to the next context, or to none, is masked."""
    batch = widen(SEQUENCES)
    assert batch["targets"].tolist() == [[2, 3, 4, 5, 0], [7, 8, 9, 10, 11]]
    assert batch["targets_segmentation"].tolist() == [[1, 0, 2, 2, 0], [1] * 5]
    assert batch["targets_position"].tolist() == [[0, 0, 0, 1, 0], [0, 1, 2, 3, 4]]


def test_arrays_are_what_a_trainer_takes() -> None:
    """Six contiguous int32 arrays, each with its own memory."""
    batch = widen(SEQUENCES)
    assert len(batch) == 6
    for array in batch.values():
        assert array.shape == (2, 5)
        assert array.dtype == np.int32
        assert array.flags.c_contiguous
    assert not any(np.shares_memory(*two) for two in combinations(batch.values(), 2))


def _bytes(arrays: Sequences) -> int:
    return sum(array.nbytes for array in arrays.values())


def test_what_travels_is_narrow() -> None:
    """At most a ninth of a batch's bytes is sent, for 128 sequences of 1024 tokens."""
    tokens = np.zeros(128 * 1025, np.int16)
    segments, segment_tokens = np.full(128, 5), np.full(5 * 128, 205)
    sequences = sequences_of(tokens, segments, segment_tokens, room=1025)
    assert 9 * _bytes(sequences) < sum(array.nbytes for array in widen(sequences).values())
