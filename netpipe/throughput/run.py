"""One run: start a loader, wait for its steady state, pull it flat out and count its tokens."""

import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import Final, NamedTuple

from netpipe.clock import Clock
from netpipe.errors import MisuseError
from netpipe.jobs.footprint import bytes_read, read_between, read_memory
from netpipe.jobs.heartbeat import Watch
from netpipe.measuring.cpu_balance import CpuBalance
from netpipe.measuring.loader_puller import LoaderFactory, Puller, close_with_timeout
from netpipe.measuring.training.token_counts import Counted, count_tokens, name_leaves
from netpipe.throughput.figures import Tally, most_behind, size_in_bytes

_MEMORY_S: Final = 1.0
# Each block of the warm-up takes this fraction of the measured time, until two in a row agree.
_LOOK_FRACTION: Final = 0.125
_AGREEMENT: Final = 0.1
_MAX_DRAINING_S: Final = 4.0
_MAX_FILLING_S: Final = 2.0
# Half of an epoch with at least this many groups of batches empties most buffers.
_MIN_GROUPS: Final = 8


class _Window(NamedTuple):
    """Counted batches of one epoch, and the cost of loading them."""

    counted: list[Counted]
    wall_s: float
    cpu_s: float
    read_bytes: int
    behind_batches: float


class LoaderRun:
    """A running loader whose batches are counted; `closing` closes it once the result is safe.

    It is first pulled without counting until two blocks in a row agree, for at most `seconds`.
    Buffers then lose batches as fast as they gain them, so they hold as many batches at the end of
    a count as at its start.
    """

    def __init__(
        self, loader: LoaderFactory, clock: Clock, closing: ExitStack, watch: Watch, seconds: float
    ) -> None:
        self._clock = clock
        self._windows: list[_Window] = []
        self._drained = True
        self.puller = Puller(loader, clock, watch)
        closing.callback(close_with_timeout, self.puller.close)
        watch.begin_rounds()
        self._steady = self.puller.pull_until_steady(
            _LOOK_FRACTION * seconds, least=2, limit_s=seconds, tolerance=_AGREEMENT
        )
        if not any(hasattr(leaf, "shape") for _, leaf in name_leaves(self.puller.first_batch)):
            raise MisuseError(
                "the loader must give arrays, whose tokens can be counted; found "
                f"{type(self.puller.first_batch).__name__} without one. Convert its values, for "
                "example with dataset.with_format('numpy')"
            )
        self._balance = CpuBalance(self.puller, clock)
        self._restarts = 0  # An epoch that began during the warm-up is drained too.

    def leave_buffered_out(self, seconds: float) -> None:
        """Take the pace from the later half of an epoch, because buffers fill while it starts."""
        puller, batches = self.puller, self.puller.epoch_batches
        if batches is not None and batches >= _MIN_GROUPS * puller.group:
            puller.ensure_epoch_has(batches)
            pulled = puller.pull_batches(batches, seconds)
            later_s = pulled.gaps_s[len(pulled.gaps_s) // 2 :]
            self._steady = replace(pulled, gaps_s=later_s, cpu_s=pulled.cpu_s / 2)

    def count(self, seconds: float) -> None:
        """Count batches for `seconds`, or until twice that time has passed; restarts are left out.

        A start may take longer than its epoch.
        """
        counted_s, until_s = 0.0, self._clock() + 2 * seconds
        while not counted_s or (counted_s < seconds and self._clock() < until_s):
            count = partial(self._count_in_epoch, seconds - counted_s)
            window, _ = self.puller.run_within_epoch(self.puller.group, count)
            self._windows.append(window)
            counted_s += window.wall_s

    def _count_in_epoch(self, seconds: float) -> _Window:
        """Count whole groups for at least `seconds`, or until the epoch ends."""
        puller, counted, arrivals_s = self.puller, list[Counted](), list[float]()
        if puller.restarts != self._restarts:
            # Batches made during the start would come without their cost.
            load_s, typical_s = self._steady.s_per_batch, self._steady.typical_s_per_batch
            puller.drain(load_s, typical_s, seconds, _MAX_DRAINING_S)
            self._restarts = puller.restarts
        counting_s = restarting_s = 0.0
        read, cpu_s = bytes_read(puller.processes.worker_pids), puller.processes.cpu_s()
        started = self._clock()
        while not counted or (self._clock() - started < seconds and puller.epoch_has(puller.group)):
            for _ in range(puller.group):
                asked_s, restarts = self._clock(), puller.restarts
                batch, wait_s = puller.pull()
                if puller.restarts > restarts:
                    restarting_s += self._clock() - asked_s - wait_s
                arrivals_s.append(self._clock() - started - restarting_s)
                before_s = time.thread_time()
                counted.append(count_tokens(batch))
                counting_s += time.thread_time() - before_s
                if not puller.epoch_has(1):
                    break
        return _Window(
            counted,
            wall_s=self._clock() - started - restarting_s,
            cpu_s=puller.processes.cpu_s() - cpu_s - counting_s,
            read_bytes=read_between(read, bytes_read(puller.processes.worker_pids)),
            behind_batches=most_behind(arrivals_s),
        )

    def take_turn(self, seconds: float) -> None:
        """Drain the buffers and count; then let them fill again, so that the loader rests."""
        load_s, typical_s = self._steady.s_per_batch, self._steady.typical_s_per_batch
        self.puller.ensure_epoch_has(4 * self.puller.group)
        self.puller.drain(load_s, typical_s, seconds, _MAX_DRAINING_S)
        self._drained &= self._balance.drain(_LOOK_FRACTION * seconds, _MAX_DRAINING_S)
        self.count(seconds)
        self.puller.wait_for_full_buffers(_MAX_FILLING_S)

    def tally(self) -> Tally:
        """Return the counts, with the peak memory during another second of pulling.

        Reading the memory costs too much CPU time to do it during a count.

        Raises:
            MisuseError: The batches have no tokens, or the buffers could not be drained.
        """
        if not self._drained:
            raise MisuseError(
                f"the loader's buffers must run empty within {_MAX_DRAINING_S:g} s of pulling, "
                "because buffered batches hide its speed; they did not. Give it smaller buffers "
                "or longer epochs"
            )
        peak_pss_bytes, peak_rss_bytes = _peak_memory(self.puller, self._clock)
        windows = self._windows
        counted = [batch for window in windows for batch in window.counted]
        tokens = sum(batch.tokens for batch in counted)
        if not tokens:
            raise MisuseError(f"the loader must give tokens; found none in {len(counted)} batches")
        return Tally(
            wall_s=sum(window.wall_s for window in windows),
            cpu_s=sum(window.cpu_s for window in windows),
            batches=len(counted),
            examples=sum(batch.examples for batch in counted),
            tokens=tokens,
            slots=sum(batch.slots for batch in counted),
            worst_padding_fraction=max(batch.padding_fraction for batch in counted),
            bytes_read=sum(window.read_bytes for window in windows),
            peak_pss_bytes=peak_pss_bytes,
            peak_rss_bytes=peak_rss_bytes,
            first_batch_s=self.puller.first_batch_s,
            counted_by=counted[0].rule,
            batch_bytes=size_in_bytes(self.puller.first_batch),
            behind_batches=max(window.behind_batches for window in windows),
        )


def longest_s(seconds: float) -> float:
    """Return the longest duration of a run after its first batch, if batches are fast."""
    return 4 * seconds + _MEMORY_S


def _peak_memory(puller: Puller, clock: Clock) -> Iterator[int]:
    """Return the peak PSS and RSS in bytes during another second of pulling."""
    started, samples = clock(), [read_memory()]
    while clock() - started < _MEMORY_S:
        puller.pull()
        samples.append(read_memory())
    return map(max, zip(*samples, strict=True))
