"""Token streams -> sequences of one length, as a trainer reads them."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from netpipe.data import vocabulary
from netpipe.data.tokenizer import TokenStream

Batch = dict[str, NDArray[np.int32]]
"""`inputs`, `targets`, and `_segmentation` and `_position` of both: int32 (sequences, length).

Segmentation is 1 for a token and 0 for padding; positions count from 0, and are 0 in padding.
"""


def fill(stream: TokenStream, *, sequence_length: int) -> Batch:
    """Give each context a sequence of its own, cut or filled with padding.

    Of `sequence_length + 1` tokens the first ones are inputs and the last ones targets:
    `targets[:, t]` is `inputs[:, t + 1]`.
    """
    slots = np.arange(sequence_length + 1)
    filled = slots < stream.sizes[:, None]
    first = np.cumsum(stream.sizes) - stream.sizes
    place = np.minimum(first[:, None] + slots, len(stream.tokens) - 1)
    tokens = np.where(filled, stream.tokens[place], vocabulary.PADDING).astype(np.int32)
    segmentation = filled.astype(np.int32)
    position = (slots[:-1] * filled[:, :-1]).astype(np.int32)
    return {
        "inputs": tokens[:, :-1].copy(),
        "targets": tokens[:, 1:].copy(),
        "inputs_segmentation": segmentation[:, :-1].copy(),
        "targets_segmentation": segmentation[:, 1:].copy(),
        "inputs_position": position,
        "targets_position": position * segmentation[:, 1:],
    }


def concatenate(blocks: Sequence[Batch]) -> Batch:
    """Put blocks of sequences behind each other."""
    return {key: np.concatenate([block[key] for block in blocks]) for key in blocks[0]}
