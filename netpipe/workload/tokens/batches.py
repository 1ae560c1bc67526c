"""Sequences as they are sent between processes, and batches as a trainer reads them."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from netpipe.workload.config import BATCH_ARRAYS
from netpipe.workload.sampling.context_order import ranges
from netpipe.workload.tokens import vocabulary

Sequences = dict[str, NDArray[np.int16 | np.int32]]
"""The contents of a batch in a twelfth of its bytes.

`tokens` int16 (sequences, length + 1); `segments` int32 (sequences,), the number of contexts in
each; `segment_tokens` int32 (segments,), the number of tokens in each context.
"""

Batch = dict[str, NDArray[np.int32]]
"""`inputs`, `targets`, and `_segmentation` and `_position` of both: int32 (sequences, length).

Segmentation numbers the contexts of a sequence from 1, and is 0 for padding and for the target
that would be the first token of the next context; positions count from 0 in each context.
"""


def sequences_of(
    tokens: NDArray[np.int16],
    segments: NDArray[np.int64],
    segment_tokens: NDArray[np.int64],
    *,
    room: int,
) -> Sequences:
    """Return the concatenated contexts as sequences of `room` tokens.

    `segments` and `segment_tokens` are as in `Sequences`; every count in `segments` is at least 1.
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
    """Concatenate blocks of sequences."""
    if len(blocks) == 1:
        return blocks[0]
    return {key: np.concatenate([block[key] for block in blocks]) for key in blocks[0]}


def take_part(block: Sequences, *, part: int, sequences: int) -> Sequences:
    """Return one of the equal parts of a block, each with `sequences` sequences."""
    first, end = part * sequences, (part + 1) * sequences
    stops = np.insert(np.cumsum(block["segments"]), 0, 0)
    return {
        "tokens": block["tokens"][first:end],
        "segments": block["segments"][first:end],
        "segment_tokens": block["segment_tokens"][stops[first] : stops[end]],
    }


def widen(sequences: Sequences) -> Batch:
    """Make a batch from sequences; `targets[:, t]` is `inputs[:, t + 1]`."""
    tokens = sequences["tokens"]
    segmentation, position, ends = _segmentation(sequences)
    batch = {
        "inputs": tokens[:, :-1].astype(np.int32),
        "targets": tokens[:, 1:].astype(np.int32),
        "inputs_segmentation": segmentation,
        "targets_segmentation": segmentation.copy(),
        "inputs_position": position,
        "targets_position": position.copy(),
    }
    # After the last token of a context there is no token of that context to predict.
    batch["targets_segmentation"].flat[ends] = 0
    batch["targets_position"].flat[ends] = 0
    return batch


def widen_padded(sequences: Sequences, *, batch_size: int, length: int) -> Batch:
    """Make a batch of `batch_size` sequences; padding replaces missing ones. `{}` has none."""
    batch = {name: np.zeros((batch_size, length), np.int32) for name in BATCH_ARRAYS}
    if sequences:
        for name, array in widen(sequences).items():
            batch[name][: len(array)] = array
    return batch


def _segmentation(
    sequences: Sequences,
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int64]]:
    """Return the segment and position of each input, 0 for padding, and the ends of contexts.

    A context that reaches the last token, which is not an input, has no end.
    """
    count, length = sequences["tokens"].shape[0], sequences["tokens"].shape[1] - 1
    segments, tokens = sequences["segments"], sequences["segment_tokens"]
    stops = np.cumsum(segments)
    filled = np.diff(np.cumsum(tokens, dtype=np.int64)[stops - 1], prepend=0)
    # Padding is an additional segment; the last token of a full sequence is not an input.
    reaching = filled > length
    inputs = tokens.astype(np.int64)
    inputs[stops[reaching] - 1] -= 1
    sizes = np.insert(inputs, stops, np.maximum(length - filled, 0))
    paddings = stops + np.arange(count)
    numbers = np.arange(1, len(sizes) + 1) - np.repeat(paddings - segments, segments + 1)
    numbers[paddings] = 0
    starts = np.cumsum(sizes) - sizes
    segmentation = np.repeat(numbers.astype(np.int32), sizes)
    position = np.arange(count * length, dtype=np.int32)
    position -= np.repeat(starts.astype(np.int32), sizes)
    position[ranges(starts[paddings], sizes[paddings])] = 0
    has_end = np.ones(len(sizes), np.bool_)
    has_end[paddings] = False
    has_end[paddings[reaching] - 1] = False
    ends = (starts + sizes - 1)[has_end]
    return segmentation.reshape(count, length), position.reshape(count, length), ends
