"""A source whose reads take as long as they would take in a storage."""

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from heapq import heappop, heappush
from typing import Any, Final

from netpipe.storage.profiles import parse_storage
from netpipe.storage.service import Service

_MAX_DOUBLINGS: Final = 5
_SESSION: Final[ContextVar["Placement | None"]] = ContextVar("netpipe-storage", default=None)


class Placement:
    """A storage that a loader is placed in, and whether the loader has wrapped its own sources."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.is_used = False

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Have `stand_in(source)` take this storage until the exit."""
        token = _SESSION.set(self)
        try:
            yield
        finally:
            _SESSION.reset(token)


def stand_in(
    source: Any, storage: str | Service | None = None, *, reads: Sequence[str] = ()
) -> Any:
    """Return a random-access source whose reads take as long as in a storage.

    Each element is one request, also where the source reads several at once; those are requested
    together. Sources of torch, with `__getitems__`, and of Grain, with `_getitems`, may read so.

    Args:
        source: Has `__len__` and `__getitem__`, or the methods that `reads` names.
        storage: As `--storage` takes it: `object-store,latency=50ms`. Without one the source is
            placed in the storage that `--storage` or `--netpipe-storage` names, and returned as it
            is if there is none.
        reads: Further methods that read: they take an index or a sequence of them.

    Raises:
        MisuseError: The storage is unknown.
    """
    if isinstance(source, StandIn):
        return source
    if storage is None:
        placement = _SESSION.get()
        if placement is None:
            return source
        placement.is_used = True
        storage = placement.service
    service = Service(parse_storage(storage)) if isinstance(storage, str) else storage
    reads_several = hasattr(source, "__getitems__") or hasattr(source, "_getitems")
    return (_BatchedStandIn if reads_several else StandIn)(source, service, tuple(reads))


class StandIn:
    """A source in a storage. It has the attributes of the source that it wraps."""

    def __init__(self, source: Any, service: Service, reads: tuple[str, ...] = ()) -> None:
        self._source = source
        self._service = service
        self._reads = reads

    def __len__(self) -> int:
        return len(self._source)

    def __getitem__(self, index: Any) -> Any:
        return self._read(self._source.__getitem__, index)

    def __repr__(self) -> str:
        return f"{self._source!r} in {self._service.profile.name}"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or "_source" not in vars(self):
            raise AttributeError(name)
        value = getattr(self._source, name)
        return (lambda rows: self._read(value, rows)) if name in self._reads else value

    def _read(self, read: Callable[[Any], Any], indices: Any) -> Any:
        started_s = time.monotonic()
        found = read(indices)
        is_several = isinstance(indices, Iterable)
        pairs = zip(indices, found, strict=False) if is_several else [(indices, found)]
        self._wait(started_s, [(int(index), count_bytes(record)) for index, record in pairs])
        return found

    def _wait(self, started_s: float, records: Iterable[tuple[int, int]]) -> None:
        """Wait until requests for records, given by their index and size, are all answered."""
        service, profile, over_s = self._service, self._service.profile, started_s
        requests = [
            (started_s, 0, size)
            for index, size in records
            if not (profile.has_cache and service.read_cached(index, size))
        ]
        while requests:
            # In real time, because other threads and processes share the limits.
            at_s, attempt, size = heappop(requests)
            _sleep_until(at_s)
            answered_s, is_served = service.request(size, at_s)
            if is_served:
                over_s = max(over_s, answered_s)
            else:
                backoff_s = profile.retry_s * 2 ** min(attempt, _MAX_DOUBLINGS)
                heappush(requests, (answered_s + backoff_s, attempt + 1, size))
        _sleep_until(over_s)


class _BatchedStandIn(StandIn):
    """The same for a source that can read several elements at once."""

    def __getitems__(self, indices: Sequence[int]) -> Any:
        return self._read(self._read_several("__getitems__"), indices)

    def _getitems(self, indices: Sequence[int]) -> Any:
        return self._read(self._read_several("_getitems"), indices)

    def _read_several(self, name: str) -> Callable[[Any], Any]:
        one_by_one = self._source.__getitem__
        return getattr(self._source, name, lambda indices: list(map(one_by_one, indices)))


def _sleep_until(time_s: float) -> None:
    left_s = time_s - time.monotonic()
    if left_s > 0:
        time.sleep(left_s)


def count_bytes(record: Any) -> int:
    """Return about how many bytes a record has: those of its arrays, strings and numbers."""
    size = getattr(record, "nbytes", None)
    if isinstance(size, int):
        return size
    if isinstance(record, (bytes, bytearray, str)):
        return len(record)
    if isinstance(record, Mapping):
        return sum(map(count_bytes, record.values()))
    if isinstance(record, (list, tuple, set, frozenset)):
        return sum(map(count_bytes, record))
    return count_bytes(vars(record)) if hasattr(record, "__dict__") else sys.getsizeof(record)
