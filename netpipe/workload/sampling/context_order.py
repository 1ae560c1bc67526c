"""The order of rows and contexts, planned from counts alone without reading the data."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from netpipe.workload.sampling.counter_rng import fold_key

MAX_CONTEXTS = 16
_MEASUREMENTS_PER_CONTEXT = 30


def contexts_per_row(row_measurements: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the number of contexts per row in an epoch: one per 30 measurements, from 1 to 16."""
    return np.clip(-(-row_measurements // _MEASUREMENTS_PER_CONTEXT), 1, MAX_CONTEXTS)


class Epochs:
    """The rows of every epoch: a `RowSource`'s row groups are shuffled, and the rows in each.

    Without a seed, the rows keep their order.
    """

    def __init__(
        self,
        row_measurements: NDArray[np.int64],
        *,
        seed: int | None,
        row_group: NDArray[np.int64] | None = None,
    ) -> None:
        self.contexts = contexts_per_row(row_measurements)
        self.contexts_per_epoch = int(self.contexts.sum())
        self._seed = seed
        self._row_group = np.arange(len(self.contexts)) if row_group is None else row_group
        self._latest: dict[int, _Epoch] = {}

    def __getitem__(self, number: int) -> "_Epoch":
        # Reader threads can replace the dictionary meanwhile, so it is not read twice.
        epoch = self._latest.get(number)
        if epoch is None:
            rows = np.arange(len(self.contexts))
            if self._seed is not None:
                row_key = fold_key(self._seed, number, rows)
                rows = np.lexsort((row_key, fold_key(self._seed, number, self._row_group)))
            contexts = self.contexts[rows]
            ends = np.cumsum(contexts)
            epoch = _Epoch(rows, ends - contexts, ends)
            # Two epochs are kept, since a block can span two of them.
            previous = list(self._latest.items())[-1:]
            self._latest = dict([*previous, (number, epoch)])
        return epoch

    def __getstate__(self) -> dict[str, object]:
        return {**vars(self), "_latest": {}}  # Each worker process shuffles for itself.


@dataclass(frozen=True)
class _Epoch:
    """Rows in the order of an epoch; their contexts are numbered from `starts` up to `ends`."""

    rows: NDArray[np.int64]
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]


@dataclass(frozen=True)
class ContextBlock:
    """Contexts that are made together, grouped by row; each array is int64 (contexts,).

    `row` is the row from which a context is drawn, and `number` its number in that row.
    """

    epoch: NDArray[np.int64]
    row: NDArray[np.int64]
    number: NDArray[np.int64]


@dataclass(frozen=True)
class BlockOrder:
    """A random-access source of context blocks, for `grain.MapDataset.source`.

    The first `contexts` of the endless sequence, epoch after epoch, are cut into blocks of
    `block_size`. Blocks at the end may have fewer contexts, or none.
    """

    epochs: Epochs
    block_size: int
    blocks: int
    contexts: int

    def __len__(self) -> int:
        return self.blocks

    def __getitem__(self, index: int) -> ContextBlock:
        first = index * self.block_size
        sequence = np.arange(first, min(first + self.block_size, self.contexts))
        epoch, context = np.divmod(sequence, self.epochs.contexts_per_epoch)
        row, number = np.empty_like(context), np.empty_like(context)
        for epoch_number in np.unique(epoch).tolist():
            inside, order = epoch == epoch_number, self.epochs[epoch_number]
            slot = np.searchsorted(order.ends, context[inside], side="right")
            row[inside], number[inside] = order.rows[slot], context[inside] - order.starts[slot]
        return ContextBlock(epoch, row, number)


@dataclass(frozen=True)
class RowBlock:
    """One or more rows whose contexts fill a block of sequences.

    `contexts` is the number of contexts from each row in each round of `ContextDraws`. Both
    arrays are int64 (rows,).
    """

    epoch: int
    row: NDArray[np.int64]
    contexts: NDArray[np.int64]


@dataclass(frozen=True)
class RowOrder:
    """A random-access source of row blocks, for `grain.MapDataset.source`.

    Each epoch is cut into blocks with about equally many contexts, and every row is in one block.
    `blocks_per_epoch` times `MAX_CONTEXTS` is at most an epoch's contexts, so no block is empty.
    """

    epochs: Epochs
    blocks_per_epoch: int
    blocks: int

    def __len__(self) -> int:
        return self.blocks

    def __getitem__(self, index: int) -> RowBlock:
        epoch, block = divmod(index, self.blocks_per_epoch)
        order, contexts = self.epochs[epoch], self.epochs.contexts_per_epoch
        bounds = [-(-contexts * bound // self.blocks_per_epoch) for bound in (block, block + 1)]
        # A row is in the block into which its first context falls.
        first, end = np.searchsorted(order.starts, bounds)
        row = order.rows[first:end]
        return RowBlock(epoch, row, self.epochs.contexts[row])


def ranges(first: NDArray[np.int64], size: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return `range(first, first + size)` for all pairs, concatenated."""
    ends = np.cumsum(size)
    return np.repeat(first - ends + size, size) + np.arange(ends[-1])
