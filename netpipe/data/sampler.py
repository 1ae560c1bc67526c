"""Rows -> contexts: which measurements of a row, in which order, which of them with their time.

All contexts of a block are drawn at once. Tables have a line for each context and a slot for each
of its at most `target` measurements; slots from a context's size on are empty and sort last. Every
number is drawn from (seed, epoch, row, context) by `counter_rng`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from netpipe.data.counter_rng import fold_key, uniform
from netpipe.data.measurements import Measurements
from netpipe.data.order import ContextBlock
from netpipe.data.rows import ProbeRow
from netpipe.data.sources import RowSource

TOKENS_PER_MEASUREMENT = 30
"""Sizes a context: `sequence_length // 30` measurements."""

# What a number is drawn for.
WINDOW, OFFSET, CHOICE, MODE, UNTIMED, SHUFFLE, COIN, FIELD_ORDER = range(8)

FULL_FRACTION = 0.4
PARTIAL_FRACTION = 0.3
FIELD_ORDERS = 24


@dataclass(frozen=True)
class BlockRows:
    """A block with the rows that its contexts are drawn from.

    Attributes:
        block: The contexts.
        rows: The rows, each once for each run of contexts that are drawn from it.
        run: int64 (contexts,), the run of each context: 0, 0, 1, 1, 1, ...
    """

    block: ContextBlock
    rows: Sequence[ProbeRow]
    run: NDArray[np.int64]


@dataclass(frozen=True)
class Contexts:
    """Sampled contexts, one behind the other.

    Attributes:
        measurements: Their columns, in the order in which they become tokens.
        sizes: int64 (contexts,), measurements in each.
        timed: bool (measurements,), whether the timestamp is told; those that are do not go back
            in time within a context.
        field_order: uint8 (measurements,), below 24: the order of the fields.
    """

    measurements: Measurements
    sizes: NDArray[np.int64]
    timed: NDArray[np.bool_]
    field_order: NDArray[np.uint8]


def read_rows(source: RowSource, block: ContextBlock) -> BlockRows:
    """Read the rows of a block; one that gives consecutive contexts is read once."""
    is_first = np.diff(block.row, prepend=-1) != 0
    rows = source.read(block.row[is_first].tolist())
    return BlockRows(block, rows, np.cumsum(is_first) - 1)


def sample(drawn_from: BlockRows, *, seed: int, target: int) -> Contexts:
    """Draw the contexts of a block.

    Args:
        drawn_from: The block and its rows.
        seed: The pipeline's seed.
        target: The most measurements in a context.

    Returns:
        The contexts, in the block's order.
    """
    block = drawn_from.block
    # A column: its numbers broadcast against the slots.
    key = fold_key(seed, block.epoch, block.row, block.number)[:, None]
    row_sizes = np.array([len(row) for row in drawn_from.rows], np.int64)[drawn_from.run, None]
    slots = np.arange(target)
    positions, sizes = _choose(key, row_sizes, slots)
    slot, is_timed = _arrange(key, sizes, slots)
    filled = slots < sizes
    positions = np.take_along_axis(positions, slot, axis=1)
    field_order = FIELD_ORDERS * uniform(key, FIELD_ORDER, slots)
    return Contexts(
        measurements=_gather(drawn_from, positions, filled),
        sizes=sizes[:, 0],
        timed=is_timed[filled],
        field_order=field_order[filled].astype(np.uint8),
    )


def _choose(
    key: NDArray[np.uint64], row_sizes: NDArray[np.int64], slots: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Choose positions in the row, ascending, and say how many are chosen."""
    target = len(slots)
    window = np.floor(np.exp(uniform(key, WINDOW) * np.log(row_sizes))).astype(np.int64)
    window = np.where(row_sizes < target, row_sizes, np.clip(window, 1, row_sizes))
    offset = (uniform(key, OFFSET) * (row_sizes - window + 1)).astype(np.int64)
    chosen = np.broadcast_to(slots, (len(key), target)).copy()
    wide = window[:, 0] > target
    chosen[wide] = _choose_without_replacement(key[wide], window[wide], slots)
    return offset + chosen, np.minimum(window, target)


def _choose_without_replacement(
    key: NDArray[np.uint64], window: NDArray[np.int64], slots: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Choose as many of [0, window) as there are slots, each set as likely, ascending.

    This is Floyd's algorithm (Bentley and Floyd, "A sample of brilliance", CACM 1987) on all
    contexts at once: slot after slot, a number that was drawn before gives way to the largest yet
    allowed, which cannot have been.
    """
    largest = window - len(slots) + slots
    drawn = (uniform(key, CHOICE, slots) * (largest + 1)).astype(np.int64)
    for slot in slots[1:]:
        is_taken = (drawn[:, :slot] == drawn[:, slot, None]).any(axis=1)
        drawn[is_taken, slot] = largest[is_taken, slot]
    return np.sort(drawn, axis=1)


def _arrange(
    key: NDArray[np.uint64], sizes: NDArray[np.int64], slots: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Merge the measurements without timestamp, shuffled, and those with it, in time order.

    A fair coin says which list is next until one ends. Without untimed measurements this is the
    mode "full", with nothing else the mode "none".

    Returns:
        The slot each place is filled from, and whether it is timed; (contexts, slots) both.
    """
    untimed = _untimed_sizes(key, sizes)
    filled = slots < sizes
    shuffled = np.argsort(np.where(filled, uniform(key, SHUFFLE, slots), 2.0), axis=1)
    rank = np.argsort(shuffled, axis=1)
    in_time_order = np.argsort((rank < untimed) | ~filled, axis=1, kind="stable")
    heads = np.cumsum(uniform(key, COIN, slots) < 0.5, axis=1)
    # Taken so far from the untimed: as many as heads, all but those that the timed list cannot
    # fill, and never more than there are.
    untimed_taken = np.minimum(untimed, np.maximum(heads, slots + 1 - (sizes - untimed)))
    is_untimed = np.diff(untimed_taken, axis=1, prepend=0) > 0
    untimed_slot = np.take_along_axis(shuffled, np.maximum(untimed_taken - 1, 0), axis=1)
    timed_slot = np.take_along_axis(in_time_order, np.maximum(slots - untimed_taken, 0), axis=1)
    return np.where(is_untimed, untimed_slot, timed_slot), ~is_untimed


def _untimed_sizes(key: NDArray[np.uint64], sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    mode = uniform(key, MODE)
    share = 0.1 + 0.8 * uniform(key, UNTIMED)
    some = np.maximum(1, (sizes * share).astype(np.int64))
    is_full, is_partial = mode < FULL_FRACTION, mode < FULL_FRACTION + PARTIAL_FRACTION
    return np.where(is_full, 0, np.where(is_partial, some, sizes))


def _gather(
    drawn_from: BlockRows, positions: NDArray[np.int64], filled: NDArray[np.bool_]
) -> Measurements:
    firsts = np.searchsorted(drawn_from.run, np.arange(len(drawn_from.rows) + 1))
    parts = [
        row.take(positions[first:end][filled[first:end]])
        for row, (first, end) in zip(drawn_from.rows, pairwise(firsts), strict=True)
    ]
    return Measurements.concatenate(parts)
