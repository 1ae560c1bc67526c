"""Loaders with the changes that a judge must see, each beside the unchanged `batches`."""

from collections.abc import Callable, Iterator
from typing import Any, Final

import grain
import numpy as np

ELEMENTS: Final = 40
BATCH: Final = 4
ALONE: Final = grain.ReadOptions(num_threads=0, prefetch_buffer_size=0)


def _make(number: int) -> dict[str, np.ndarray]:
    return {"tokens": np.arange(number, number + 3), "label": np.array(number % 7)}


def _elements(count: int = ELEMENTS) -> Any:
    return grain.MapDataset.range(count)


def batches() -> Any:
    """Return the unchanged loader: shuffled elements in batches of 4, in one epoch."""
    return _elements().shuffle(seed=1).map(_make).batch(BATCH)


def vectorised() -> Any:
    """Return equal batches, made in another way."""

    def make(numbers: np.ndarray) -> dict[str, np.ndarray]:
        return {"tokens": numbers[:, None] + np.arange(3), "label": numbers % 7}

    return _elements().shuffle(seed=1).batch(BATCH).map(make)


def endless() -> Any:
    """Return a loader that repeats its epoch, in another order each time."""
    return _elements().shuffle(seed=1).map(_make).repeat().batch(BATCH).to_iter_dataset(ALONE)


def endless_in_one_order() -> Any:
    """Return a loader that repeats its first epoch as it was."""
    ordered = _elements().shuffle(seed=1).map(_make)
    return ordered.repeat(reseed_each_epoch=False).batch(BATCH)


def endless_without_end() -> Iterator[Any]:
    """Yield batches, with no way to make an epoch end."""
    while True:
        yield from batches()


def sharded(shard_index: int = 0, shard_count: int = 1) -> Any:
    """Return the elements of one shard."""
    return _elements()[shard_index::shard_count].map(_make).batch(BATCH)


def sharded_alike(shard_index: int = 0, shard_count: int = 1) -> Any:
    """Return the elements of the first shard, whatever the shard."""
    return _elements()[0 * shard_index :: shard_count].map(_make).batch(BATCH)


def any_workers(workers: int = 0) -> Any:
    """Return a loader that ignores its workers."""
    assert workers in {0, 2}
    return batches()


def ordered_by_workers(workers: int = 0) -> Any:
    """Return batches in an order that depends on the number of workers."""
    return batches() if not workers else list(batches())[::-1]


def hash_seeded() -> Any:
    """Return a loader in an order that depends on PYTHONHASHSEED."""
    numbers = [int(word) for word in {str(number) for number in range(ELEMENTS)}]
    return grain.MapDataset.source(numbers).map(_make).batch(BATCH)


class ShuffledEachTime:
    """Batches that come in another order each time that they are iterated."""

    def __init__(self) -> None:
        self.epoch = 0

    def __iter__(self) -> Iterator[Any]:
        self.epoch += 1
        return iter(_elements().shuffle(seed=self.epoch).map(_make).batch(BATCH))


class ShuffledOnce(ShuffledEachTime):
    """Batches that come in the order of the first epoch again."""

    def __iter__(self) -> Iterator[Any]:
        self.epoch = 0
        return super().__iter__()


def _change(function: Callable[[Any], Any]) -> Callable[[], Any]:
    return lambda: _elements().shuffle(seed=1).map(_make).map(function).batch(BATCH)


def _skip_decoding(element: dict[str, Any]) -> dict[str, Any]:
    return element if element["tokens"][0] % 4 else {**element, "tokens": np.zeros(3, int)}


def _repeat_batches() -> Iterator[Any]:
    kept: Any = None
    for number, batch in enumerate(batches()):
        kept = kept if number % 2 else batch
        yield kept


def _shift_labels() -> Iterator[Any]:
    made = list(batches())
    for batch, other in zip(made, made[1:] + made[:1], strict=True):
        yield {**batch, "label": other["label"]}


CHEATS: Final[dict[str, Callable[[], Any]]] = {
    "batches repeated": _repeat_batches,
    "rows dropped": lambda: _elements().shuffle(seed=1)[:-BATCH].map(_make).batch(BATCH),
    "shuffle removed": lambda: _elements().map(_make).batch(BATCH),
    "shuffled after the batch": lambda: _elements().map(_make).batch(BATCH).shuffle(seed=1),
    "other seed": lambda: _elements().shuffle(seed=2).map(_make).batch(BATCH),
    "remainder dropped": lambda: list(batches())[:-1],
    "dtype narrowed": _change(lambda each: {**each, "tokens": each["tokens"].astype("int32")}),
    "fewer tokens": _change(lambda each: {**each, "tokens": each["tokens"][:2]}),
    "leaf dropped": _change(lambda each: {"tokens": each["tokens"]}),
    "decode skipped": _change(_skip_decoding),
    "labels shifted": _shift_labels,
    "larger batches": lambda: _elements().shuffle(seed=1).map(_make).batch(2 * BATCH),
}
