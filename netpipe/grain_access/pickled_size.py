"""The number of bytes sent to a worker: the size of a pickle, counted without keeping it."""

import pickle
from collections.abc import Collection, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any, Final, NamedTuple

from cloudpickle import CloudPickler

_CONTAINERS: Final = (list, tuple, dict, set, frozenset)
_MAX_ELEMENTS: Final = 2_000
_SAMPLED_ELEMENTS: Final = 200
# Limits the time for small objects to less than a second. The pickler writes an object larger than
# a frame, such as an array, without copying it, which takes no time.
_MAX_SMALL_BYTES: Final = 1 << 20
_LARGE_WRITE_BYTES: Final = (1 << 16) + (1 << 12)


class PickledSize(NamedTuple):
    """The size of an object's pickle, or the reason why it cannot be pickled, in one line.

    The size of a container of more than 2,000 elements is estimated from a sample. With more than
    1 MiB of small values outside such containers, the size is a lower bound.
    """

    bytes: int | None
    unpicklable: str = ""


class _EnoughError(Exception):
    """Ends the counting of an object that has too many small parts."""


class PickleSizer(CloudPickler):  # type: ignore[misc]  # cloudpickle is untyped
    """Counts the bytes sent to each worker of one `mp_prefetch`, a shared object only once.

    Grain sends `cloudpickle.dumps(dataset)`. This pickler does the same without a copy of the data,
    because it writes to itself and only counts.
    """

    def __init__(self) -> None:
        super().__init__(self, pickle.HIGHEST_PROTOCOL)
        self._excluded: frozenset[int] = frozenset()
        self._bytes = self._small_bytes = 0
        # Keeps the values too: an id is only unique while its object lives.
        self._estimated: dict[int, object] = {}

    def measure(self, value: object, excluded: Sequence[object] = ()) -> PickledSize:
        """Return the size of an object, without excluded objects and those counted before."""
        try:
            return PickledSize(self.count(value, frozenset(map(id, excluded))))
        except Exception as error:  # noqa: BLE001  # a user's object may raise anything
            # The memo may contain objects that were not counted.
            self.clear_memo()
            reason = type(error).__name__
            with suppress(Exception):  # a user's error may fail in its own `__str__`
                reason += f": {' '.join(str(error).split())}"
            return PickledSize(None, reason)

    def count(self, value: object, excluded: frozenset[int]) -> int:
        """Return the bytes of everything that is not yet in the memo."""
        self._excluded = excluded
        self._bytes = self._small_bytes = 0
        with suppress(_EnoughError):
            self.dump(value)
        return self._bytes

    def write(self, data: bytes | memoryview) -> int:
        """Count the bytes of a frame of small objects, or of one large object."""
        size = memoryview(data).nbytes
        self._bytes += size
        self._small_bytes += size if size < _LARGE_WRITE_BYTES else 0
        if self._small_bytes > _MAX_SMALL_BYTES:
            raise _EnoughError
        return size

    def persistent_id(self, obj: object) -> bool | None:
        """Leave out excluded objects and those estimated from a sample."""
        if id(obj) in self._excluded or id(obj) in self._estimated:
            return True
        if type(obj) in _CONTAINERS and len(obj) > _MAX_ELEMENTS:  # type: ignore[arg-type]
            self._estimated[id(obj)] = obj
            self._bytes += self._estimate(obj)  # type: ignore[arg-type]
            return True
        return None

    def _estimate(self, container: Collection[object]) -> int:
        """Estimate the size of a container's pickle from a sample and from half of that sample.

        Objects that the elements share are in both sizes, so the difference leaves them out.
        """
        sample = _take_every(len(container) // _SAMPLED_ELEMENTS, container)
        half = _take_every(2, sample)
        sizes = (PickleSizer().count(part, self._excluded) for part in (half, sample))
        half_bytes, sample_bytes = sizes
        per_element = (sample_bytes - half_bytes) / (len(sample) - len(half))
        return sample_bytes + round(per_element * (len(container) - len(sample)))


def _take_every(step: int, container: Collection[object]) -> Collection[object]:
    elements = container.items() if isinstance(container, dict) else container
    kind: Any = type(container)
    return kind(islice(elements, 0, None, step))  # type: ignore[no-any-return]
