"""Which contexts a pipeline makes, in which order: planned from counts alone, without reading."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from netpipe.data.counter_rng import fold_key

_MEASUREMENTS_PER_CONTEXT = 30
_MAX_CONTEXTS = 16


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
    return np.clip(-(-row_measurements // _MEASUREMENTS_PER_CONTEXT), 1, _MAX_CONTEXTS)


class BlockOrder:
    """A random-access source of context blocks, for `grain.MapDataset.source`.

    Epoch after epoch the rows come in an order of its own, each with all its contexts, and this
    endless sequence is cut into blocks. A block is a function of the seed and its index alone.

    Args:
        row_measurements: int64 (rows,), rows >= 1.
        seed: Another seed gives other orders.
        block_size: Contexts in a block.
        blocks: The length of the source.
    """

    def __init__(
        self, row_measurements: NDArray[np.int64], *, seed: int, block_size: int, blocks: int
    ) -> None:
        self._contexts = contexts_per_row(row_measurements)
        self._contexts_in_epoch = int(self._contexts.sum())
        self._seed = seed
        self._block_size = block_size
        self._blocks = blocks
        self._epochs: dict[int, _Epoch] = {}

    def __len__(self) -> int:
        return self._blocks

    def __getitem__(self, index: int) -> ContextBlock:
        sequence = np.arange(index * self._block_size, (index + 1) * self._block_size)
        epoch, place = np.divmod(sequence, self._contexts_in_epoch)
        row, number = np.empty_like(place), np.empty_like(place)
        for one in range(int(epoch[0]), int(epoch[-1]) + 1):
            inside = epoch == one
            row[inside], number[inside] = self._epoch(one).find(place[inside])
        return ContextBlock(epoch, row, number)

    def __getstate__(self) -> dict[str, object]:
        return {**vars(self), "_epochs": {}}  # each worker process sorts for itself

    def _epoch(self, number: int) -> "_Epoch":
        known = self._epochs.get(number)
        if known is None:
            known = _Epoch(self._seed, number, self._contexts)
            latest = list(self._epochs.items())[-1:]  # blocks on both sides of an epoch's end
            self._epochs = dict([*latest, (number, known)])
        return known


class _Epoch:
    def __init__(self, seed: int, number: int, contexts: NDArray[np.int64]) -> None:
        keys = fold_key(seed, number, np.arange(len(contexts)))
        self._rows = np.argsort(keys, kind="stable")
        self._ends = np.cumsum(contexts[self._rows])
        self._contexts = contexts

    def find(self, place: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return row and number of the contexts at these places of the epoch."""
        slot = np.searchsorted(self._ends, place, side="right")
        row = self._rows[slot]
        return row, place - (self._ends[slot] - self._contexts[row])
