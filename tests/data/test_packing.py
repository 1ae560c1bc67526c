"""Sequences of one length."""

import numpy as np

from netpipe.data.packing import concatenate, fill
from netpipe.data.tokenizer import TokenStream

STREAM = TokenStream(np.arange(1, 15, dtype=np.int16), np.array([3, 7, 4]))


def test_cut_filled_and_shifted() -> None:
    """Contexts shorter and longer than a sequence are filled and cut; targets are one ahead."""
    batch = fill(STREAM, sequence_length=4)
    assert batch["inputs"].tolist() == [[1, 2, 3, 0], [4, 5, 6, 7], [11, 12, 13, 14]]
    assert batch["targets"].tolist() == [[2, 3, 0, 0], [5, 6, 7, 8], [12, 13, 14, 0]]
    assert batch["inputs_segmentation"].tolist() == [[1, 1, 1, 0], [1] * 4, [1] * 4]
    assert batch["targets_segmentation"].tolist() == [[1, 1, 0, 0], [1] * 4, [1, 1, 1, 0]]
    assert batch["inputs_position"].tolist() == [[0, 1, 2, 0], [0, 1, 2, 3], [0, 1, 2, 3]]
    assert batch["targets_position"].tolist() == [[0, 1, 0, 0], [0, 1, 2, 3], [0, 1, 2, 0]]


def test_arrays_are_what_a_trainer_takes() -> None:
    """Six contiguous int32 arrays, each with its own memory."""
    batch = concatenate([fill(STREAM, sequence_length=5), fill(STREAM, sequence_length=5)])
    assert len(batch) == 6
    for array in batch.values():
        assert array.shape == (6, 5)
        assert array.dtype == np.int32
        assert array.flags.c_contiguous
        assert array.flags.owndata
