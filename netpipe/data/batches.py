"""Sequences as they travel between processes, and batches as a trainer reads them."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from netpipe.data import vocabulary

Sequences = dict[str, NDArray[np.int16 | np.int32]]
"""Sequences of one length + 1, narrow: a twelfth of the bytes of the batch that they become.

`tokens` int16 (sequences, length + 1); `segments` int32 (sequences,), how many contexts each has;
`segment_tokens` int32 (segments,), the tokens of each of these, one sequence behind the other.
"""

Batch = dict[str, NDArray[np.int32]]
"""`inputs`, `targets`, and `_segmentation` and `_position` of both: int32 (sequences, length).

Segmentation counts the contexts of a sequence from 1 on, and is 0 for padding and for the target
that would be the first token of the next context; positions count from 0 in each context.
"""


def sequences_of(
    tokens: NDArray[np.int16],
    segments: NDArray[np.int64],
    segment_tokens: NDArray[np.int64],
    *,
    room: int,
) -> Sequences:
    """Lay a stream of tokens out in sequences.

    Args:
        tokens: (tokens,), the contexts behind each other.
        segments: (sequences,), the contexts of each sequence, at least 1.
        segment_tokens: (segments,), the tokens of each context.
        room: Tokens that a sequence has room for; its contexts have no more.
    """
    ends = np.cumsum(segment_tokens)[np.cumsum(segments) - 1]
    out = np.full((len(segments), room), vocabulary.PADDING, np.int16)
    out[np.arange(room) < np.diff(ends, prepend=0)[:, None]] = tokens
    return {
        "tokens": out,
        "segments": segments.astype(np.int32),
        "segment_tokens": segment_tokens.astype(np.int32),
    }


def concatenate(blocks: Sequence[Sequences]) -> Sequences:
    """Put blocks of sequences behind each other."""
    if len(blocks) == 1:
        return blocks[0]
    return {key: np.concatenate([block[key] for block in blocks]) for key in blocks[0]}


def widen(sequences: Sequences) -> Batch:
    """Make the batch of sequences.

    Of a sequence's tokens the first ones are inputs and the last ones targets:
    `targets[:, t]` is `inputs[:, t + 1]`.
    """
    tokens = sequences["tokens"]
    segmentation, position = _segmentation(sequences)
    inputs_segmentation = segmentation[:, :-1].copy()
    inputs_position = position[:, :-1].copy()
    is_same = segmentation[:, 1:] == inputs_segmentation
    return {
        "inputs": tokens[:, :-1].astype(np.int32),
        "targets": tokens[:, 1:].astype(np.int32),
        "inputs_segmentation": inputs_segmentation,
        "targets_segmentation": inputs_segmentation * is_same,
        "inputs_position": inputs_position,
        "targets_position": inputs_position * is_same,
    }


def _segmentation(sequences: Sequences) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return segment and position of every token; both are 0 for padding."""
    count, room = sequences["tokens"].shape
    segments, tokens = sequences["segments"], sequences["segment_tokens"]
    ends = np.cumsum(segments)
    filled = np.diff(np.cumsum(tokens)[ends - 1], prepend=0)
    # A sequence's padding is one segment more.
    sizes = np.insert(tokens, ends, room - filled)
    numbers = np.arange(1, len(sizes) + 1) - np.repeat(
        ends - segments + np.arange(count), segments + 1
    )
    numbers[ends + np.arange(count)] = 0
    starts = np.cumsum(sizes) - sizes
    segmentation = np.repeat(numbers.astype(np.int32), sizes)
    position = np.arange(count * room, dtype=np.int32) - np.repeat(starts.astype(np.int32), sizes)
    position *= segmentation > 0
    return segmentation.reshape(count, room), position.reshape(count, room)
