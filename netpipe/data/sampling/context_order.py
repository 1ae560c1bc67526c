"""Which contexts a pipeline makes, in which order: planned from counts alone, without reading."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from netpipe.data.sampling.counter_rng import fold_key

MAX_CONTEXTS = 16
_MEASUREMENTS_PER_CONTEXT = 30


@dataclass(frozen=True)
class ContextBlock:
    """Contexts that are made together.

    Attributes:
        epoch: int64 (contexts,), the pass over the data that each belongs to.
        row: int64 (contexts,), the row each is drawn from; a row's contexts are consecutive.
        number: int64 (contexts,), which of the row's contexts each is.
    """

    epoch: NDArray[np.int64]
    row: NDArray[np.int64]
    number: NDArray[np.int64]


def contexts_per_row(row_measurements: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return how many contexts each row gives in an epoch: one for 30 measurements, 1 to 16."""
    return np.clip(-(-row_measurements // _MEASUREMENTS_PER_CONTEXT), 1, MAX_CONTEXTS)


class _Order:
    """What every source of blocks is made of: the rows, epoch after epoch, and its length."""

    def __init__(
        self,
        row_measurements: NDArray[np.int64],
        *,
        seed: int,
        blocks: int,
        row_group: NDArray[np.int64] | None,
    ) -> None:
        self._contexts = contexts_per_row(row_measurements)
        self._blocks = blocks
        self._epochs = _Epochs(seed, self._contexts, row_group)

    def __len__(self) -> int:
        return self._blocks


class BlockOrder(_Order):
    """A random-access source of context blocks, for `grain.MapDataset.source`.

    Epoch after epoch the rows come in an order of its own, group by group and each with all its
    contexts, and this endless sequence is cut into blocks. A block is a function of the seed and
    its index alone.

    Args:
        row_measurements: int64 (rows,), rows >= 1.
        seed: Another seed gives other orders.
        block_size: Contexts in a block.
        blocks: The length of the source.
        row_group: int64 (rows,), as in `RowSource`; without it each row is read alone.
    """

    def __init__(
        self,
        row_measurements: NDArray[np.int64],
        *,
        seed: int,
        block_size: int,
        blocks: int,
        row_group: NDArray[np.int64] | None = None,
    ) -> None:
        super().__init__(row_measurements, seed=seed, blocks=blocks, row_group=row_group)
        self._contexts_in_epoch = int(self._contexts.sum())
        self._block_size = block_size

    def __getitem__(self, index: int) -> ContextBlock:
        sequence = np.arange(index * self._block_size, (index + 1) * self._block_size)
        epoch, place = np.divmod(sequence, self._contexts_in_epoch)
        row, number = np.empty_like(place), np.empty_like(place)
        for one in range(int(epoch[0]), int(epoch[-1]) + 1):
            inside = epoch == one
            row[inside], number[inside] = self._epochs[one].find(place[inside])
        return ContextBlock(epoch, row, number)


@dataclass(frozen=True)
class RowBlock:
    """Rows whose contexts fill a block of sequences.

    Attributes:
        epoch: The pass over the data.
        row: int64 (rows,), at least one.
        contexts: int64 (rows,), how many contexts a row gives before each has given as many as its
            share.
    """

    epoch: int
    row: NDArray[np.int64]
    contexts: NDArray[np.int64]


class RowOrder(_Order):
    """A random-access source of row blocks, for `grain.MapDataset.source`.

    Epoch after epoch the rows come in an order of its own, group by group, and each epoch is cut
    into as many blocks, of about equally many contexts: every row is in exactly one block of an
    epoch. A block is a function of the seed and its index alone.

    Args:
        row_measurements: int64 (rows,), rows >= 1.
        seed: Another seed gives other orders.
        blocks_per_epoch: At most a `MAX_CONTEXTS`th of the contexts, so that no block is empty.
        blocks: The length of the source.
        row_group: int64 (rows,), as in `RowSource`; without it each row is read alone.
    """

    def __init__(
        self,
        row_measurements: NDArray[np.int64],
        *,
        seed: int,
        blocks_per_epoch: int,
        blocks: int,
        row_group: NDArray[np.int64] | None = None,
    ) -> None:
        super().__init__(row_measurements, seed=seed, blocks=blocks, row_group=row_group)
        self._blocks_per_epoch = blocks_per_epoch

    def __getitem__(self, index: int) -> RowBlock:
        epoch, block = divmod(index, self._blocks_per_epoch)
        row = self._epochs[epoch].part(block, self._blocks_per_epoch)
        return RowBlock(epoch, row, self._contexts[row])


class _Epochs:
    """The latest two, so that blocks on both sides of an epoch's end are quick."""

    def __init__(
        self, seed: int, contexts: NDArray[np.int64], row_group: NDArray[np.int64] | None
    ) -> None:
        self._seed = seed
        self._contexts = contexts
        self._row_group = np.arange(len(contexts)) if row_group is None else row_group
        self._known: dict[int, _Epoch] = {}

    def __getitem__(self, number: int) -> "_Epoch":
        known = self._known.get(number)
        if known is None:
            known = _Epoch(self._seed, number, self._contexts, self._row_group)
            latest = list(self._known.items())[-1:]
            self._known = dict([*latest, (number, known)])
        return known

    def __getstate__(self) -> dict[str, object]:
        return {**vars(self), "_known": {}}  # each worker process sorts for itself


class _Epoch:
    def __init__(
        self,
        seed: int,
        number: int,
        contexts: NDArray[np.int64],
        row_group: NDArray[np.int64],
    ) -> None:
        row_key = fold_key(seed, number, np.arange(len(contexts)))
        self._rows = np.lexsort((row_key, fold_key(seed, number, row_group)))
        self._ends = np.cumsum(contexts[self._rows])
        self._contexts = contexts

    def find(self, place: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return row and number of the contexts at these places of the epoch."""
        slot = np.searchsorted(self._ends, place, side="right")
        row = self._rows[slot]
        return row, place - (self._ends[slot] - self._contexts[row])

    def part(self, number: int, parts: int) -> NDArray[np.int64]:
        """Return the rows of one of so many parts of the epoch, with about as many contexts each.

        A row is in the part that its first context falls into.
        """
        contexts = int(self._ends[-1])
        first, end = (-(-contexts * one // parts) for one in (number, number + 1))
        starts = self._ends - self._contexts[self._rows]
        return self._rows[np.searchsorted(starts, first) : np.searchsorted(starts, end)]
