"""A stage as if it cost nothing: it gives back what it gave before."""

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
"""Results that a stage which is left out computes, before it gives only those."""


class _Copying(threading.local):
    cpu_s = 0.0


_COPYING: Final = _Copying()


def copying_s() -> float:
    """Return the CPU seconds that copies have taken this thread: a stage at no cost makes none."""
    return _COPYING.cpu_s


class Recorded:
    """A function that computes its first results, and then returns copies of them.

    They are copies because the stages behind it may change in place what they are given.

    Args:
        function: What it stands for.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._kept: list[Any] = []
        self._calls = 0  # a lock or a counter would not go to a worker

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Return what the function once returned for other arguments."""
        if len(self._kept) < KEPT:
            result = self._function(*arguments, **named)
            self._kept.append(_timed_copy(result))
            return result
        self._calls += 1
        return _timed_copy(self._kept[self._calls % KEPT])


class RecordedSource:
    """A source of the same length that reads its first elements, and gives them again.

    Args:
        source: What it stands for.
    """

    def __init__(self, source: Any) -> None:
        self._source = source
        self._read = Recorded(source.__getitem__)

    def __len__(self) -> int:
        return len(self._source)

    def __getitem__(self, index: int) -> Any:
        return self._read(index)


def without_stage(loader: LoaderFactory, node: int) -> LoaderFactory | None:
    """Return the factory of the same Grain pipeline with a stage that costs nothing.

    Args:
        loader: Makes the pipeline; what it returns is made anew each time.
        node: The stage's node in the graph of what the loader makes.

    Returns:
        None where the stage is not one that can be left out: a map, a batch or a source; and where
        `loader` gives the same one each time, which all others share.
    """
    first, second = loader(), loader()
    if _dataset(first, node) is _dataset(second, node) or not _leave_out(first, node):
        return None

    def made() -> Any:
        dataset = loader()
        _leave_out(dataset, node)
        return dataset

    return made


def _leave_out(made: Any, node: int) -> bool:
    return replace_user_code(_dataset(made, node), _recorded)


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
