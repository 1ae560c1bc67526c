"""How many bytes a worker is sent: the size of an object's pickle, counted without keeping it."""

import pickle
from collections.abc import Collection, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any, Final, NamedTuple

from cloudpickle import CloudPickler

_CONTAINERS: Final = (list, tuple, dict, set, frozenset)
_MAX_ELEMENTS: Final = 2_000
_SAMPLED_ELEMENTS: Final = 200
# Counting many small objects is limited to some tenths of a second. Anything larger than a frame
# of the pickler, such as an array, is written as it is and takes no time.
_MAX_OBJECTS: Final = 20_000
_MAX_SMALL_BYTES: Final = 1 << 21
_LARGE_WRITE_BYTES: Final = (1 << 16) + (1 << 12)


class PickledSize(NamedTuple):
    """The size of an object's pickle, or the reason why it cannot be pickled, in one line.

    A container of more than 2,000 elements is estimated from a sample. Of more than 20,000 objects,
    or more than 2 MiB of small values, outside such containers, the size is a lower bound.
    """

    bytes: int | None
    unpicklable: str = ""


class PickleSizer:
    """Counts what the workers of one `mp_prefetch` are sent: a shared object only once.

    Grain sends `cloudpickle.dumps(dataset)`; this does the same without its copy of the data.
    """

    def __init__(self) -> None:
        self._pickler = _CountingPickler()

    def measure(self, value: object, excluded: Sequence[object] = ()) -> PickledSize:
        """Count the bytes of an object, without those counted before and the excluded objects."""
        try:
            return PickledSize(self._pickler.count(value, frozenset(map(id, excluded))))
        except Exception as error:  # noqa: BLE001  # a user's object may raise anything
            # The old pickler remembers objects as sent that it never reached.
            self._pickler = _CountingPickler()
            reason = type(error).__name__
            with suppress(Exception):  # a user's error may fail in its own `__str__`
                reason += f": {' '.join(str(error).split())}"
            return PickledSize(None, reason)


class _EnoughError(Exception):
    """Ends the count of an object that has too many small parts."""


class _ByteCounter:
    """A file that only counts what is written to it."""

    total = 0
    small = 0

    def write(self, data: bytes | memoryview) -> int:
        """Count what the pickler writes: frames of small objects, or one large object."""
        size = memoryview(data).nbytes
        self.total += size
        self.small += size if size < _LARGE_WRITE_BYTES else 0
        if self.small > _MAX_SMALL_BYTES:
            raise _EnoughError
        return size


class _CountingPickler(CloudPickler):  # type: ignore[misc]  # cloudpickle is untyped
    """A pickler that keeps its memo from one object to the next, but no data."""

    def __init__(self) -> None:
        self._counter = _ByteCounter()
        super().__init__(self._counter, pickle.HIGHEST_PROTOCOL)
        self._excluded: frozenset[int] = frozenset()
        self._objects = 0
        # Keeps the values too: an id is only unique while its object lives.
        self._estimated: dict[int, object] = {}

    def count(self, value: object, excluded: frozenset[int]) -> int:
        """Count the bytes of everything that is not in the memo."""
        self._excluded, self._objects = excluded, 0
        self._counter.total = self._counter.small = 0
        with suppress(_EnoughError):
            self.dump(value)
        return self._counter.total

    def persistent_id(self, obj: object) -> bool | None:
        """Keep the pickler out of excluded objects and of those estimated from a sample."""
        if id(obj) in self._excluded or id(obj) in self._estimated:
            return True
        if type(obj) in _CONTAINERS and len(obj) > _MAX_ELEMENTS:  # type: ignore[arg-type]
            self._estimated[id(obj)] = obj
            self._counter.total += _estimate(obj, self._excluded)  # type: ignore[arg-type]
            return True
        return None

    def reducer_override(self, obj: object) -> Any:
        """Limit the number of objects that are asked how to pickle them, which is slowest."""
        self._objects += 1
        if self._objects > _MAX_OBJECTS:
            raise _EnoughError
        return super().reducer_override(obj)


def _estimate(container: Collection[object], excluded: frozenset[int]) -> int:
    """Estimate a container's pickle from what the second half of a sample adds to the first.

    What all elements share is in the first half, and so counts once.
    """
    sample = _take_every(len(container) // _SAMPLED_ELEMENTS, container)
    half = _take_every(2, sample)
    half_bytes, sample_bytes = (_CountingPickler().count(part, excluded) for part in (half, sample))
    per_element = (sample_bytes - half_bytes) / (len(sample) - len(half))
    return sample_bytes + round(per_element * (len(container) - len(sample)))


def _take_every(step: int, container: Collection[object]) -> Collection[object]:
    elements = container.items() if isinstance(container, dict) else container
    kind: Any = type(container)
    taken: Collection[object] = kind(islice(elements, 0, None, step))
    return taken
