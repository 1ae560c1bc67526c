"""Sources of a pipeline whose reads pass through a function."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from netpipe.grain_access.grain_classes import replace_source
from netpipe.grain_access.reader import collect_datasets

Observe = Callable[[Callable[[Any], Any], Any], Any]
"""A function called with the reading method of a source, and the index or indices to read."""


class ObservedSource:
    """A random-access source whose reads pass through a function.

    The source is pickled before the function, which may note its own arrival in a worker.
    """

    def __init__(self, source: Any, observe: Observe) -> None:
        self._source, self._read = source, observe

    def __len__(self) -> int:
        return len(self._source)

    def __getitem__(self, index: Any) -> Any:
        return self._read(self._source.__getitem__, index)


class GrainBatchedSource(ObservedSource):
    """An observed source with `_getitems`, a method that Grain looks up in the class."""

    def _getitems(self, indices: Sequence[int]) -> Any:
        return self._read(self._source._getitems, indices)  # noqa: SLF001  # Grain's name


def observe_source(source: Any, observe: Observe) -> ObservedSource:
    """Return a source that passes each read through a function."""
    kind = GrainBatchedSource if hasattr(source, "_getitems") else ObservedSource
    return kind(source, observe)


@contextmanager
def observed_sources(dataset: Any, observe: Observe) -> Iterator[None]:
    """Pass each read of a pipeline's sources through a function within the context.

    A loader may return the same dataset each time, so its sources are restored.
    """
    with ExitStack() as restoring:
        for part in collect_datasets(dataset).values():
            if replace_source(part, lambda source: observe_source(source, observe)):
                restoring.callback(replace_source, part, lambda observed: observed._source)  # noqa: SLF001
        yield
