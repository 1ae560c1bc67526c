"""A stage at no cost: it returns its earlier results."""

import threading
import time
from collections.abc import Callable
from copy import deepcopy
from typing import Any, Final

from netpipe.diagnosis.loader_variants import OneThread
from netpipe.linting.graph.grain_classes import replace_user_code
from netpipe.linting.graph.reader import collect_datasets
from netpipe.measuring.loader_puller import LoaderFactory

KEPT: Final = 4
"""Results that an ablated stage computes before it repeats them."""


class _Copying(threading.local):
    cpu_s = 0.0


_COPYING: Final = _Copying()


def copying_s() -> float:
    """Return the CPU seconds that this thread spent on copies: they are not loading."""
    return _COPYING.cpu_s


class Recorded:
    """A function that computes its first results, and then returns copies of them.

    They are copies because the stages behind it may change their element in place.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._kept: list[Any] = []
        # A plain number, because a lock or an iterator could not be sent to a worker.
        self._calls = 0

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Return a result of the function, maybe one for other arguments."""
        if len(self._kept) < KEPT:
            result = self._function(*arguments, **named)
            self._kept.append(_timed_copy(result))
            return result
        self._calls += 1
        return _timed_copy(self._kept[self._calls % KEPT])


class RecordedSource:
    """A source that reads its first elements, and then repeats them; its length stays."""

    def __init__(self, source: Any) -> None:
        self._source = source
        self._read = Recorded(source.__getitem__)

    def __len__(self) -> int:
        return len(self._source)

    def __getitem__(self, index: int) -> Any:
        return self._read(index)


def without_stage(loader: LoaderFactory, node: int) -> LoaderFactory | None:
    """Return the factory of the same Grain pipeline with one stage at no cost.

    Args:
        loader: Makes the pipeline.
        node: The stage's node in the pipeline's graph.

    Returns:
        None if the stage is no map, batch or source, or if `loader` returns the same dataset each
        time, so that the change would reach the unmodified loader too.
    """
    first, second = loader(), loader()
    is_shared = _dataset(first, node) is _dataset(second, node)
    if is_shared or not replace_user_code(_dataset(first, node), _recorded):
        return None

    def make() -> Any:
        dataset = loader()
        replace_user_code(_dataset(dataset, node), _recorded)
        return dataset

    return make


def _dataset(made: Any, node: int) -> object:
    return collect_datasets(made.dataset if isinstance(made, OneThread) else made)[node]


def _recorded(value: Any) -> Any:
    return Recorded(value) if callable(value) else RecordedSource(value)


def _timed_copy(value: Any) -> Any:
    started_s = time.thread_time()
    try:
        return deepcopy(value)
    finally:
        _COPYING.cpu_s += time.thread_time() - started_s
