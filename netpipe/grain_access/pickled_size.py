"""The number of bytes sent to a worker: the size of a pickle, counted without keeping it."""

import pickle
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from cloudpickle import CloudPickler

# Limits the time for small objects to about two seconds, and is enough for rule large-capture. The
# pickler writes an object larger than a frame, such as an array, without copying it.
_MAX_SMALL_BYTES: Final = 1 << 25
_LARGE_WRITE_BYTES: Final = (1 << 16) + (1 << 12)


class PickledSize(NamedTuple):
    """The size of an object's pickle, or the reason why it cannot be pickled, in one line.

    With more than 32 MiB of small values, the size is a lower bound.
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

    def measure(self, value: object, excluded: Sequence[object] = ()) -> PickledSize:
        """Return the size of an object, without excluded objects and those counted before."""
        self._excluded = frozenset(map(id, excluded))
        self._bytes = self._small_bytes = 0
        try:
            with suppress(_EnoughError):
                self.dump(value)
        except Exception as error:  # noqa: BLE001  # a user's object may raise anything
            # The memo may contain objects that were not counted.
            self.clear_memo()
            reason = type(error).__name__
            with suppress(Exception):  # a user's error may fail in its own `__str__`
                reason += f": {' '.join(str(error).split())}"
            return PickledSize(None, reason)
        return PickledSize(self._bytes)

    def write(self, data: bytes | memoryview) -> int:
        """Count the bytes of a frame of small objects, or of one large object."""
        size = memoryview(data).nbytes
        self._bytes += size
        self._small_bytes += size if size < _LARGE_WRITE_BYTES else 0
        if self._small_bytes > _MAX_SMALL_BYTES:
            raise _EnoughError
        return size

    def persistent_id(self, obj: object) -> bool | None:
        """Leave out excluded objects."""
        return True if id(obj) in self._excluded else None
