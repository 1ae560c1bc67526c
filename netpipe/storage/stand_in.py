"""Sources whose reads take as long as from a storage, and loaders placed in one (`--storage`)."""

import pickle
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from functools import wraps
from heapq import heappop, heappush
from typing import Any, Final

from netpipe.errors import MisuseError
from netpipe.grain_access.grain_classes import replace_source
from netpipe.grain_access.nodes import Node
from netpipe.grain_access.observed_sources import GrainBatchedSource, ObservedSource
from netpipe.grain_access.reader import collect_datasets, read_graph
from netpipe.storage.emulated_storage import Service, share
from netpipe.storage.profiles import parse_storage

_PLACEMENT: Final[ContextVar["_Placement | None"]] = ContextVar("netpipe-storage", default=None)


class _Placement:
    """The storage that a loader is placed in, and the number of sources placed so far."""

    def __init__(self, storage: str) -> None:
        self.service = share(storage)
        self.sources = 0


def stand_in(source: Any, storage: str = "", *, reads: Sequence[str] = ()) -> Any:
    """Return a random-access source whose reads take as long as from a storage.

    Each element is one read. Elements that the source reads in one call are requested together.

    Args:
        source: Has `__len__` and `__getitem__`, or the methods that `reads` names.
        storage: A storage as for `--storage`: `object-store,latency=50ms`. `--storage` and
            `--netpipe-storage` override it. If no storage is named, `source` itself is returned.
        reads: Further methods that read; each takes an index or a sequence of indices.

    Raises:
        MisuseError: The storage is unknown, or the source lacks one of the methods.
    """
    if unknown := [name for name in reads if not hasattr(source, name)]:
        raise MisuseError(f"reads must be a list of methods of the source; found {unknown[0]!r}")
    placement = _PLACEMENT.get() or (_Placement(storage) if storage else None)
    if placement is None:
        return source
    if isinstance(source, StandIn):
        source, reads = source._source, source._reads  # noqa: SLF001  # of the same module
    placement.sources += 1
    kind = _GrainBatchedStandIn if hasattr(source, "_getitems") else StandIn
    return kind(source, placement.service, placement.sources, (*reads, "__getitems__"))


def place(loader: Callable[..., Any], storage: str) -> Callable[..., Any]:
    """Return a factory of the same loader in a storage, named as for `--storage`.

    If the original factory calls `stand_in`, it places the sources itself. Otherwise the sources
    of its Grain pipeline are replaced.

    Raises:
        MisuseError: The storage is unknown. The new factory also raises this error, if it cannot
            replace a source.
    """
    is_local = parse_storage(storage).name.startswith("local")

    @wraps(loader)
    def make(*arguments: Any, **named: Any) -> Any:
        placement = _Placement(storage)
        token = _PLACEMENT.set(placement)
        try:
            made = loader(*arguments, **named)
            if not placement.sources:
                _replace_sources(made, storage)
        finally:
            _PLACEMENT.reset(token)
        return made

    # The attribute by which a loader factory declares its storage to the linter.
    make.netpipe_storage = "local" if is_local else "remote"  # type: ignore[attr-defined]
    return make


def _replace_sources(made: Any, storage: str) -> None:
    datasets = collect_datasets(made)
    leaves = [node for node in read_graph(made).nodes if not node.parents]
    if not leaves or not all(
        _is_stored(leaf) and replace_source(datasets[leaf.id], stand_in) for leaf in leaves
    ):
        found = "a source that is a stream, computed or a list" if leaves else type(made).__name__
        raise MisuseError(
            f"storage {storage}: the loader must be a Grain pipeline of random-access sources, "
            f"which can be replaced; found {found}. Before the factory returns, wrap its "
            "sources: netpipe.storage.stand_in(source)"
        )


def _is_stored(leaf: Node) -> bool:
    """Return whether a leaf may read from a storage; a list often holds file names for a map."""
    return leaf.kind == "Source" and not str(leaf.parameters.get("source")).startswith("builtins.")


class StandIn(ObservedSource):
    """A source in a storage, with the attributes of the source that it wraps."""

    def __init__(self, source: Any, service: Service, number: int, reads: Sequence[str]) -> None:
        self._source = source
        self._service = service
        self._number = number
        self._reads = reads
        # The diagnosis and the linter identify an object by these attributes.
        self.__module__, self.__qualname__ = type(source).__module__, type(source).__qualname__

    def __bool__(self) -> bool:
        return bool(self._source)  # The source may have no length.

    def __repr__(self) -> str:
        return f"{self._source!r} in {self._service.profile.name}"

    def __getattr__(self, name: str) -> Any:
        # While an object is copied, the copy has no attributes yet.
        reads = vars(self).get("_reads")
        if reads is None or (name.startswith("__") and name not in reads):
            raise AttributeError(name)
        value = getattr(self._source, name)
        return (lambda index: self._read(value, index)) if name in reads else value

    def _read(self, read: Callable[[Any], Any], index: Any) -> Any:
        found = read(index)
        records = self._list_records(index)
        self._wait(records, count_bytes(found) // max(1, len(records)))
        return found

    def _list_records(self, index: Any) -> Sequence[Any]:
        if isinstance(index, slice):
            return range(*index.indices(len(self)))
        # An array without dimensions is a single index.
        is_one = isinstance(index, (str, bytes)) or getattr(index, "ndim", 1) == 0
        return list(index) if isinstance(index, Iterable) and not is_one else [index]

    def _wait(self, records: Sequence[Any], size: int) -> None:
        """Request records of `size` bytes each, and wait until all requests are answered."""
        service = self._service
        started_s = over_s = time.monotonic()
        requests = [
            (started_s, 0)
            for record in records
            if not service.read_cached(f"{self._number} {record}", size)
        ]
        while requests:
            # Make requests in real time, because other threads and processes share the limits.
            at_s, attempt = heappop(requests)
            _sleep_until(at_s)
            answered_s, is_served = service.request(size, at_s, attempt)
            if is_served:
                over_s = max(over_s, answered_s)
            else:
                heappush(requests, (answered_s, attempt + 1))
        _sleep_until(over_s)


class _GrainBatchedStandIn(StandIn, GrainBatchedSource):
    """A stand-in for a source from which Grain reads several elements at once."""


def _sleep_until(time_s: float) -> None:
    left_s = time_s - time.monotonic()
    if left_s > 0:
        time.sleep(left_s)


def count_bytes(record: Any) -> int:
    """Return the size of a record's pickle in bytes, without copying its arrays."""
    if isinstance(record, bytes):
        return len(record)
    buffers: list[pickle.PickleBuffer] = []
    try:
        pickled = pickle.dumps(record, protocol=5, buffer_callback=buffers.append)
    except Exception:  # noqa: BLE001  # a user's object may raise anything
        return sys.getsizeof(record)
    return len(pickled) + sum(buffer.raw().nbytes for buffer in buffers)
