"""Contexts drawn from the rows of a block, as many as its sequences turn out to need."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from netpipe.data.formats.rows import ProbeRow
from netpipe.data.sampling.context_order import ContextBlock, RowBlock
from netpipe.data.sampling.counter_rng import fold_key
from netpipe.data.sampling.sampler import BlockRows, Contexts, sample
from netpipe.data.sources.probe_rows import RowSource


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

    In each round a row gives `block.contexts` contexts, and all are shuffled. In the first round
    the first context of each row precedes the others, so that no row is left out while there is
    room. The sequence does not depend on how many contexts `take` returns at a time. A context has
    at most `target` measurements.
    """

    def __init__(self, drawn_from: DrawnRows, *, seed: int, target: int) -> None:
        self._rows = drawn_from.rows
        self._block = drawn_from.block
        self._seed = seed
        self._target = target
        self._rounds = _rounds(drawn_from.block, seed)
        self._slots, self._numbers = next(self._rounds)

    def take(self, count: int) -> Contexts:
        """Return the next contexts of the sequence."""
        while len(self._slots) < count:
            slots, numbers = next(self._rounds)
            self._slots = np.concatenate([self._slots, slots])
            self._numbers = np.concatenate([self._numbers, numbers])
        slots, self._slots = self._slots[:count], self._slots[count:]
        numbers, self._numbers = self._numbers[:count], self._numbers[count:]
        # The contexts of a row are sampled together.
        by_row = np.argsort(slots, kind="stable")
        drawn = self._sample(slots[by_row], numbers[by_row])
        back = np.argsort(by_row)
        return drawn.pick(back, drawn.sizes[back])

    def _sample(self, slots: NDArray[np.int64], numbers: NDArray[np.int64]) -> Contexts:
        is_first = np.diff(slots, prepend=-1) != 0
        epoch, row = np.full_like(slots, self._block.epoch), self._block.row[slots]
        rows = [self._rows[slot] for slot in slots[is_first].tolist()]
        block = BlockRows(ContextBlock(epoch, row, numbers), rows, np.cumsum(is_first) - 1)
        return sample(block, seed=self._seed, target=self._target)


def _rounds(block: RowBlock, seed: int) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Yield the rows of each round's contexts, and their numbers in the rows."""
    slots = np.repeat(np.arange(len(block.row)), block.contexts)
    starts = np.repeat(np.cumsum(block.contexts) - block.contexts, block.contexts)
    numbers = np.arange(len(slots)) - starts
    while True:
        key = fold_key(seed, block.epoch, block.row[slots], numbers)
        order = np.lexsort((key, numbers > 0))
        yield slots[order], numbers[order]
        numbers = numbers + block.contexts[slots]
