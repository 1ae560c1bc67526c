"""An emulated storage, shared by a loader's processes, that schedules the answers to requests."""

import fcntl
import mmap
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from math import isfinite, log
from random import Random
from statistics import NormalDist
from typing import Final, TypeAlias
from zlib import crc32

from netpipe.device.shared_storages import list_shared_storages, share_storage
from netpipe.errors import SessionError
from netpipe.storage.profiles import StorageProfile, parse_storage

_State: TypeAlias = "memoryview[float]"
_TAIL_DEVIATIONS: Final = NormalDist().inv_cdf(0.99)
# Entries are one byte each, in a sparse file. Records can collide in an entry, so a large data set
# looks slightly more cached than it is.
_CACHE_ENTRIES: Final = 1 << 26
# Fields of the shared state. The times at which the connections become free come after them.
_NEXT_READ_S, _PIPE_FREE_S, _CACHED_BYTES, _FIELDS = range(4)
_WORD: Final = 8
# A storage that refuses reads applies its rate over this time, so a few reads may begin at once.
_BURST_S: Final = 0.1
_MAX_DOUBLINGS: Final = 5

_LOCK = threading.Lock()  # shared by all threads of this process
_DRAW: Final = Random(os.getpid())


@cache
def share(storage: str, path: str = "") -> "Service":
    """Return the service of a storage, which this process shares with its child processes.

    Raises:
        MisuseError: The storage is unknown.
    """
    service = Service(parse_storage(storage), path or list_shared_storages().get(storage, ""))
    share_storage(storage, service.path)
    return service


class Service:
    """Answers requests with the latency and within the limits of a storage.

    The state of the limits is in an anonymous file (memfd_create(2)), which disappears with the
    last process that uses it. A process never closes it, because that would release its lock.
    """

    def __init__(self, profile: StorageProfile, path: str = "") -> None:
        """Start a storage, or share the one that another process holds at `path`.

        Raises:
            SessionError: The other process has ended.
        """
        self.profile = profile
        most = profile.max_concurrent_reads
        self._slots = int(most) if isfinite(most) else 0
        state_bytes = _WORD * (_FIELDS + self._slots)
        self._file = self._open(path) if path else os.memfd_create("netpipe-storage")
        os.ftruncate(self._file, state_bytes + _CACHE_ENTRIES)
        self.path = path or f"/proc/{os.getpid()}/fd/{self._file}"
        shared = memoryview(mmap.mmap(self._file, state_bytes + _CACHE_ENTRIES))
        self._state: _State = shared[:state_bytes].cast("d")
        self._cached = shared[state_bytes:]

    def _open(self, path: str) -> int:
        try:
            return os.open(path, os.O_RDWR)
        except OSError as error:
            raise SessionError(
                f"storage {self.profile.name}: the process that made the stand-in must still run, "
                f"because it holds the limits; found {path}: {error.strerror}. Make another one"
            ) from error

    def request(self, read_bytes: int, now_s: float, attempt: int = 0) -> tuple[float, bool]:
        """Request a read at a time of the monotonic clock, after `attempt` earlier attempts.

        Returns:
            The time at which the read ends, and True; or the time of the next attempt, and False.
        """
        with self._locked_state() as state:
            over_s, is_served = self._schedule(state, read_bytes, now_s)
        if is_served:
            return over_s, True
        # Full jitter: reads that were refused together are not requested again together.
        longest_s = self.profile.retry_s * 2 ** min(attempt, _MAX_DOUBLINGS)
        return over_s + longest_s * _DRAW.random(), False

    def read_cached(self, record: str, read_bytes: int) -> bool:
        """Return whether the cache holds a record; if not, cache the record if it fits."""
        profile, number = self.profile, crc32(record.encode())
        is_warm = number < profile.warm_fraction * 2**32
        if is_warm or not profile.cache_bytes:
            return is_warm
        with self._locked_state() as state:
            entry = number % _CACHE_ENTRIES
            is_held = bool(self._cached[entry])
            if not is_held and state[_CACHED_BYTES] + read_bytes <= profile.cache_bytes:
                state[_CACHED_BYTES] += read_bytes
                self._cached[entry] = 1
            return is_held

    @contextmanager
    def _locked_state(self) -> Iterator[_State]:
        with _LOCK:
            # Unlike flock(2) locks, these belong to one process, not to its forks.
            fcntl.lockf(self._file, fcntl.LOCK_EX)
            try:
                yield self._state
            finally:
                fcntl.lockf(self._file, fcntl.LOCK_UN)

    def _schedule(self, state: _State, read_bytes: int, now_s: float) -> tuple[float, bool]:
        profile, free_s, slot, begin_s = self.profile, state[_FIELDS:], 0, now_s
        if self._slots:
            slot = min(range(self._slots), key=free_s.__getitem__)
            begin_s = max(begin_s, free_s[slot])
        over_s = begin_s + self._draw_latency_s()
        is_served = _DRAW.random() >= profile.failure_fraction
        if is_served and isfinite(profile.reads_per_s):
            early_s = max(0.0, state[_NEXT_READ_S] - begin_s)
            is_served = early_s <= _BURST_S or not profile.retry_s
            if is_served:
                over_s += 0.0 if profile.retry_s else early_s
                state[_NEXT_READ_S] = begin_s + early_s + 1 / profile.reads_per_s
        if is_served:
            # Bytes are sent in the order of the requests, and the latency is added.
            passed_s = max(state[_PIPE_FREE_S], begin_s) + read_bytes / profile.total_bytes_per_s
            state[_PIPE_FREE_S] = passed_s
            over_s += max(read_bytes / profile.connection_bytes_per_s, passed_s - begin_s)
        if self._slots:
            free_s[slot] = over_s
        return over_s, is_served

    def _draw_latency_s(self) -> float:
        """Draw a log-normal latency with the profile's median and 99th percentile."""
        median_s, tail_s = self.profile.latency_s, self.profile.tail_latency_s
        if not tail_s:
            return median_s
        return _DRAW.lognormvariate(log(median_s), log(tail_s / median_s) / _TAIL_DEVIATIONS)

    def __reduce__(self) -> tuple[Callable[..., "Service"], tuple[str, str]]:
        return share, (self.profile.name, self.path)


def _begin_anew() -> None:
    """Give a forked child its own seed, and its own lock, which no thread of its parent holds."""
    global _LOCK
    _LOCK = threading.Lock()
    _DRAW.seed(os.getpid())


os.register_at_fork(after_in_child=_begin_anew)
