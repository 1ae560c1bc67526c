"""Draws contexts from rows: chooses the measurements, their order, and which have timestamps.

All contexts of a block are drawn at once. Arrays are (contexts, slots), with `target` slots for
measurements; slots from a context's size on are empty and sort last. `counter_rng` draws every
number from (seed, epoch, row, context).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from netpipe.workload.formats.rows import Measurements, ProbeRow, take
from netpipe.workload.sampling.context_order import ContextBlock, RowBlock, ranges
from netpipe.workload.sampling.counter_rng import fold_key, uniform
from netpipe.workload.sources.probe_rows import RowSource

TOKENS_PER_MEASUREMENT = 30
"""A context has at most `sequence_length // 30` measurements."""

# The streams of `uniform`, one for each decision that needs random numbers.
WINDOW, OFFSET, CHOICE, MODE, UNTIMED, SHUFFLE, COIN, FIELD_ORDER = range(8)

FULL_FRACTION = 0.4
PARTIAL_FRACTION = 0.3
FIELD_ORDERS = 24


@dataclass(frozen=True)
class BlockRows:
    """A block, and one row for each run of consecutive contexts from the same row."""

    block: ContextBlock
    rows: Sequence[ProbeRow]


@dataclass(frozen=True)
class Contexts:
    """Sampled contexts, concatenated, with measurements in the order of their tokens.

    Attributes:
        sizes: int64 (contexts,), the number of measurements in each context.
        timed: bool (measurements,), whether the timestamp becomes tokens; timed measurements of a
            context are in time order.
        field_order: uint8 (measurements,), below 24: the index of the field order.
    """

    measurements: Measurements
    sizes: NDArray[np.int64]
    timed: NDArray[np.bool_]
    field_order: NDArray[np.uint8]

    def pick(self, number: NDArray[np.int64], size: NDArray[np.int64]) -> "Contexts":
        """Return these contexts, in the given order, each with its first `size` measurements."""
        kept = ranges((np.cumsum(self.sizes) - self.sizes)[number], size)
        return Contexts(
            self.measurements.pick(kept), size, self.timed[kept], self.field_order[kept]
        )

    @classmethod
    def concatenate(cls, parts: Sequence["Contexts"]) -> "Contexts":
        """Concatenate one or more parts."""
        return cls(
            Measurements.concatenate([part.measurements for part in parts]),
            np.concatenate([part.sizes for part in parts]),
            np.concatenate([part.timed for part in parts]),
            np.concatenate([part.field_order for part in parts]),
        )


def read_rows(source: RowSource, block: ContextBlock) -> BlockRows:
    """Read the rows of a block; consecutive contexts from the same row read it once."""
    is_first = np.diff(block.row, prepend=-1) != 0
    return BlockRows(block, source.read(block.row[is_first].tolist()))


def sample(drawn_from: BlockRows, *, seed: int, sequence_length: int) -> Contexts:
    """Draw the contexts of a block, in its order."""
    block, target = drawn_from.block, sequence_length // TOKENS_PER_MEASUREMENT
    key = fold_key(seed, block.epoch, block.row, block.number)
    # The number of each context's run: 0, 0, 1, 1, 1, ...
    run = np.cumsum(np.diff(block.row, prepend=-1) != 0) - 1
    row_sizes = np.array([len(row) for row in drawn_from.rows], np.int64)[run]
    positions, sizes = _choose(key, row_sizes, target)
    positions, is_timed = _arrange(key, sizes, positions)
    filled = np.arange(target) < sizes[:, None]
    context, slot = np.nonzero(filled)
    taken = np.bincount(run, sizes).astype(np.int64)
    return Contexts(
        measurements=take(drawn_from.rows, np.split(positions[filled], np.cumsum(taken)[:-1])),
        sizes=sizes,
        timed=is_timed[filled],
        field_order=(FIELD_ORDERS * uniform(key[context], FIELD_ORDER, slot)).astype(np.uint8),
    )


def likely_measurements(row_sizes: NDArray[np.int64], sequence_length: int) -> NDArray[np.float64]:
    """Return the mean size of each row's contexts, float64 (rows,).

    Short rows are taken whole; others average min(w, target), with w log-uniform up to their size.
    """
    target = sequence_length // TOKENS_PER_MEASUREMENT
    log_size = np.log(np.maximum(row_sizes, 2))
    cut = (target - 1) / log_size + target * (1 - np.log(target) / log_size)
    return np.where(row_sizes < target, row_sizes, cut)


def _choose(
    key: NDArray[np.uint64], row_sizes: NDArray[np.int64], target: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Choose ascending positions in each context's row; return them and the context sizes."""
    window = np.floor(np.exp(uniform(key, WINDOW) * np.log(row_sizes))).astype(np.int64)
    window = np.where(row_sizes < target, row_sizes, np.clip(window, 1, row_sizes))
    offset = (uniform(key, OFFSET) * (row_sizes - window + 1)).astype(np.int64)
    positions = offset[:, None] + np.arange(target)
    wide = window > target
    chosen = _choose_without_replacement(key[wide], window[wide], target)
    positions[wide] = offset[wide, None] + chosen
    return positions, np.minimum(window, target)


def _choose_without_replacement(
    key: NDArray[np.uint64], window: NDArray[np.int64], target: int
) -> NDArray[np.int64]:
    """Choose `target` numbers of [0, window), ascending; every set is equally likely.

    This is Floyd's algorithm (Bentley and Floyd, "A sample of brilliance", CACM 1987) on all
    contexts at once: slot by slot, a number that was drawn before is replaced by the largest one
    allowed in the slot, which is new.
    """
    slots = np.arange(target)
    largest = window[:, None] - target + slots
    drawn = (uniform(key[:, None], CHOICE, slots) * (largest + 1)).astype(np.int64)
    chosen = np.sort(drawn, axis=1)
    twice = (chosen[:, 1:] == chosen[:, :-1]).any(axis=1)
    drawn, largest = drawn[twice].T.copy(), largest[twice].T
    for slot in slots[1:]:
        is_taken = (drawn[:slot] == drawn[slot]).any(axis=0)
        np.copyto(drawn[slot], largest[slot], where=is_taken)
    chosen[twice] = np.sort(drawn.T, axis=1)
    return chosen


def _arrange(
    key: NDArray[np.uint64], sizes: NDArray[np.int64], positions: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Order the positions of each context by its mode; return them and whether each is timed.

    Depending on the mode, none, some or all of the measurements lose their timestamps.
    """
    mode = uniform(key, MODE)
    some = np.maximum(1, (sizes * (0.1 + 0.8 * uniform(key, UNTIMED))).astype(np.int64))
    is_full, is_partial = mode < FULL_FRACTION, mode < FULL_FRACTION + PARTIAL_FRACTION
    untimed = np.where(is_full, 0, np.where(is_partial, some, sizes))
    ordered, is_timed = positions.copy(), np.ones(positions.shape, np.bool_)
    mixed = np.flatnonzero(untimed)
    ordered[mixed], is_timed[mixed] = _merge(
        key[mixed, None], sizes[mixed, None], untimed[mixed, None], positions[mixed]
    )
    return ordered, is_timed


def _merge(
    key: NDArray[np.uint64],
    sizes: NDArray[np.int64],
    untimed: NDArray[np.int64],
    positions: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Merge the shuffled untimed measurements with the timed ones, which stay in time order.

    A fair coin chooses the list that the next measurement comes from, until one list ends.
    """
    slots = np.arange(positions.shape[1])
    filled = slots < sizes
    shuffled = np.argsort(np.where(filled, uniform(key, SHUFFLE, slots), 2.0), axis=1)
    heads = np.cumsum(uniform(key, COIN, slots) < 0.5, axis=1)
    # Each slot with heads takes an untimed measurement while any are left, and so does each slot
    # after the last timed one.
    untimed_taken = np.minimum(untimed, np.maximum(heads, slots + 1 - (sizes - untimed)))
    is_untimed = np.diff(untimed_taken, axis=1, prepend=0) > 0
    loses_time = np.zeros(positions.shape, np.bool_)
    np.put_along_axis(loses_time, shuffled, slots < untimed, axis=1)
    merged = positions.copy()
    merged[is_untimed] = np.take_along_axis(positions, shuffled, axis=1)[slots < untimed]
    merged[filled & ~is_untimed] = positions[filled & ~loses_time]
    return merged, ~is_untimed


@dataclass(frozen=True)
class DrawnRows:
    """A block with its rows."""

    block: RowBlock
    rows: Sequence[ProbeRow]


def read_block(source: RowSource, block: RowBlock) -> DrawnRows:
    """Read the rows of a block, each once."""
    return DrawnRows(block, source.read(block.row.tolist()))


class ContextDraws:
    """The endless sequence of contexts of a block's rows.

    Each round has `block.contexts` contexts of each row, shuffled. In the first round, the first
    context of each row comes before all others, so that no row is left out while there is room.
    The sequence does not depend on the counts that `take` is called with.
    """

    def __init__(self, drawn_from: DrawnRows, *, seed: int, sequence_length: int) -> None:
        self._rows = drawn_from.rows
        self._block = drawn_from.block
        self._seed = seed
        self._length = sequence_length
        self._rounds = _rounds(drawn_from.block, seed)
        self._slots, self._numbers = next(self._rounds)

    def take(self, count: int) -> Contexts:
        """Return the next `count` contexts of the sequence."""
        while len(self._slots) < count:
            slots, numbers = next(self._rounds)
            self._slots = np.concatenate([self._slots, slots])
            self._numbers = np.concatenate([self._numbers, numbers])
        slots, self._slots = self._slots[:count], self._slots[count:]
        numbers, self._numbers = self._numbers[:count], self._numbers[count:]
        # The contexts of a row are sampled together.
        by_row = np.argsort(slots, kind="stable")
        slots, numbers = slots[by_row], numbers[by_row]
        epoch = np.full_like(slots, self._block.epoch)
        block = ContextBlock(epoch, self._block.row[slots], numbers)
        is_first = np.diff(slots, prepend=-1) != 0
        rows = [self._rows[slot] for slot in slots[is_first].tolist()]
        drawn = sample(BlockRows(block, rows), seed=self._seed, sequence_length=self._length)
        back = np.argsort(by_row)
        return drawn.pick(back, drawn.sizes[back])


def _rounds(block: RowBlock, seed: int) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Yield the row indices of each round's contexts, and the contexts' numbers in their rows."""
    slots = np.repeat(np.arange(len(block.row)), block.contexts)
    starts = np.repeat(np.cumsum(block.contexts) - block.contexts, block.contexts)
    numbers = np.arange(len(slots)) - starts
    while True:
        key = fold_key(seed, block.epoch, block.row[slots], numbers)
        order = np.lexsort((key, numbers > 0))
        yield slots[order], numbers[order]
        numbers = numbers + block.contexts[slots]
