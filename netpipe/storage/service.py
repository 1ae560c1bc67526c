"""A storage as all processes of a loader share it: when each request is answered."""

import fcntl
import mmap
import os
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from math import exp, isfinite, log
from statistics import NormalDist
from typing import Final, TypeAlias

from netpipe.storage.profiles import StorageProfile

_State: TypeAlias = "memoryview[float]"
_NORMAL: Final = NormalDist()
_GOLDEN: Final = 0x9E3779B97F4A7C15
_MASK: Final = 2**64 - 1
# One byte each, of a file that takes memory only where it was written. Records share entries by
# chance, so that a larger data set looks a little more cached than it is.
_CACHE_ENTRIES: Final = 1 << 26
# Fields of the shared state, before the times at which each connection is free.
_REQUESTS, _NEXT_READ_S, _PIPE_FREE_S, _CACHED_BYTES, _FIELDS = range(5)
_WORD: Final = 8
# A storage that refuses reads counts them over this long, so that a few may begin at once.
_BURST_S: Final = 0.1

_LOCK = threading.Lock()  # of all threads of this process


class Service:
    """Answers requests with the latency and within the limits of a storage.

    A copy in another process shares the limits, through a file without a name (memfd_create(2)),
    which is gone when the last process that uses it has ended.
    """

    def __init__(self, profile: StorageProfile, path: str = "") -> None:
        """Start a storage, or share the one that another process holds at `path`."""
        self.profile = profile
        most = profile.max_concurrent_reads
        self._slots = int(most) if isfinite(most) else 0
        state_bytes = _WORD * (_FIELDS + self._slots)
        if path:
            self._file = os.open(path, os.O_RDWR)
        else:
            self._file = os.memfd_create("netpipe-storage")
            os.ftruncate(self._file, state_bytes + _CACHE_ENTRIES)
        weakref.finalize(self, os.close, self._file)
        self.path = path or f"/proc/{os.getpid()}/fd/{self._file}"
        shared = memoryview(mmap.mmap(self._file, state_bytes + _CACHE_ENTRIES))
        self._state: _State = shared[:state_bytes].cast("d")
        self._cached = shared[state_bytes:]

    def request(self, read_bytes: int, now_s: float) -> tuple[float, bool]:
        """Request a read at a monotonic time; return when it is over, and whether it succeeded."""
        with self._locked_state() as state:
            return self._schedule(state, read_bytes, now_s)

    def read_cached(self, record: int, read_bytes: int) -> bool:
        """Return whether the cache holds a record; it then keeps what fits, once it is read."""
        profile, key = self.profile, _scramble(record) % _CACHE_ENTRIES
        if _draw_fraction(record) < profile.warm_fraction:
            return True
        with self._locked_state() as state:
            is_held = bool(self._cached[key])
            if not is_held and state[_CACHED_BYTES] + read_bytes <= profile.cache_bytes:
                state[_CACHED_BYTES] += read_bytes
                self._cached[key] = 1
            return is_held

    @contextmanager
    def _locked_state(self) -> Iterator[_State]:
        with _LOCK:
            # Unlike flock(2), these locks belong to a process, and are not shared by a forked one.
            fcntl.lockf(self._file, fcntl.LOCK_EX)
            try:
                yield self._state
            finally:
                fcntl.lockf(self._file, fcntl.LOCK_UN)

    def _schedule(self, state: _State, read_bytes: int, now_s: float) -> tuple[float, bool]:
        profile, free_s = self.profile, state[_FIELDS:]
        state[_REQUESTS] += 1
        number, slot, begin_s = int(state[_REQUESTS]), 0, now_s
        if self._slots:
            slot = min(range(self._slots), key=free_s.__getitem__)
            begin_s = max(begin_s, free_s[slot])
        over_s = begin_s + self._draw_latency_s(number)
        is_served = _draw_fraction(2 * number + 1) >= profile.failure_fraction
        if is_served and isfinite(profile.reads_per_s):
            early_s = state[_NEXT_READ_S] - begin_s
            is_served = early_s <= _BURST_S or not profile.retry_s
            if is_served:
                over_s += 0.0 if profile.retry_s else max(0.0, early_s)
                state[_NEXT_READ_S] = begin_s + max(0.0, early_s) + 1 / profile.reads_per_s
        if is_served:
            over_s = self._transfer(state, read_bytes, begin_s, over_s)
        if self._slots:
            free_s[slot] = over_s
        return over_s, is_served

    def _transfer(
        self, state: _State, read_bytes: int, begin_s: float, first_byte_s: float
    ) -> float:
        """Return when the last byte is there."""
        profile = self.profile
        # Bytes pass in the order of the requests, and the latency comes on top.
        passed_s = max(state[_PIPE_FREE_S], begin_s) + read_bytes / profile.total_bytes_per_s
        state[_PIPE_FREE_S] = passed_s
        return max(
            first_byte_s + read_bytes / profile.connection_bytes_per_s,
            passed_s + first_byte_s - begin_s,
        )

    def _draw_latency_s(self, number: int) -> float:
        """Return the latency of a request: log-normal, given by its median and 99th percentile."""
        median_s, tail_s = self.profile.latency_s, self.profile.tail_latency_s
        if not tail_s or not median_s:
            return median_s
        spread = log(tail_s / median_s) / _NORMAL.inv_cdf(0.99)
        return median_s * exp(spread * _NORMAL.inv_cdf(_draw_fraction(2 * number)))

    def __reduce__(self) -> tuple[Callable[..., "Service"], tuple[StorageProfile, str]]:
        return _attach, (self.profile, self.path)


@cache
def _attach(profile: StorageProfile, path: str) -> Service:
    """Return this process's only copy of a storage that another process holds."""
    return Service(profile, path)


def _renew_lock() -> None:
    """Give a forked child a lock that no thread of its parent holds."""
    global _LOCK
    _LOCK = threading.Lock()


os.register_at_fork(after_in_child=_renew_lock)


def _draw_fraction(number: int) -> float:
    """Return a pseudo-random number above 0 and below 1."""
    return (_scramble(number) + 0.5) / 2**64


def _scramble(number: int) -> int:
    """Return 64 bits that depend on a number: splitmix64 (Steele, Lea and Flood, 2014)."""
    mixed = (number * _GOLDEN) & _MASK
    mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _MASK
    return mixed ^ (mixed >> 31)
