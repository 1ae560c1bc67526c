"""One run: start a loader, wait for its steady state, pull it flat out and count its tokens."""

import time
from collections.abc import Iterator
from contextlib import ExitStack
from multiprocessing.connection import Connection
from typing import Final

from netpipe.clock import Clock
from netpipe.errors import MisuseError
from netpipe.jobs.footprint import bytes_read, read_between, read_memory
from netpipe.jobs.heartbeat import UNWATCHED, Watch
from netpipe.jobs.orders import read_orders
from netpipe.measuring.cpu_balance import CpuBalance
from netpipe.measuring.loader_puller import LoaderFactory, Puller, close_with_timeout
from netpipe.measuring.training.token_counts import Counted, count_tokens
from netpipe.throughput.figures import Tally, describe_arrays, most_behind, size_in_bytes

_MEMORY_S: Final = 1.0
# Each block of the warm-up takes this fraction of the measured time, until two in a row agree.
_LOOK_FRACTION: Final = 0.125
_AGREEMENT: Final = 0.1
_MAX_DRAINING_S: Final = 4.0
_MAX_FILLING_S: Final = 2.0


class LoaderRun:
    """A running loader whose batches are counted; `closing` closes it once the result is safe."""

    def __init__(
        self, loader: LoaderFactory, clock: Clock, closing: ExitStack, watch: Watch
    ) -> None:
        self._clock = clock
        self._counted: list[Counted] = []
        self._wall_s = self._cpu_s = self._behind = 0.0
        self._read_bytes = 0
        self._drained = True
        self.puller = Puller(loader, clock, watch)
        closing.callback(close_with_timeout, self.puller.close)
        watch.begin_rounds()

    def warm_up(self, seconds: float) -> None:
        """Pull without counting until two blocks in a row agree, for at most `seconds`.

        Buffers then lose batches as fast as they gain them, so they hold as many batches at the end
        of a count as at its start.
        """
        self._steady = self.puller.pull_until_steady(
            _LOOK_FRACTION * seconds, least=2, limit_s=seconds, tolerance=_AGREEMENT
        )
        self._balance = CpuBalance(self.puller, self._clock)

    def count(self, seconds: float) -> None:
        """Count whole groups of batches for at least `seconds`."""
        puller, counted, arrivals_s = self.puller, list[Counted](), list[float]()
        counting_s = restarting_s = 0.0
        read, cpu_s = bytes_read(puller.processes.worker_pids), puller.processes.cpu_s()
        started = self._clock()
        while not counted or self._clock() - started < seconds:
            for _ in range(puller.group):
                asked_s, restarts = self._clock(), puller.restarts
                batch, wait_s = puller.pull()
                if puller.restarts > restarts:
                    restarting_s += self._clock() - asked_s - wait_s
                arrivals_s.append(self._clock() - started - restarting_s)
                before_s = time.thread_time()
                counted.append(count_tokens(batch))
                counting_s += time.thread_time() - before_s
        self._wall_s += self._clock() - started - restarting_s
        self._cpu_s += puller.processes.cpu_s() - cpu_s - counting_s
        self._read_bytes += read_between(read, bytes_read(puller.processes.worker_pids))
        self._counted += counted
        self._behind = max(self._behind, most_behind(arrivals_s))

    def take_turn(self, seconds: float) -> None:
        """Drain the buffers and count; then let them fill again, so that the loader rests."""
        load_s, typical_s = self._steady.s_per_batch, self._steady.typical_s_per_batch
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
                "because buffered batches hide its speed; they did not. Give it smaller buffers"
            )
        peak_pss_bytes, peak_rss_bytes = _peak_memory(self.puller, self._clock)
        counted, tokens = self._counted, sum(batch.tokens for batch in self._counted)
        if not tokens:
            raise MisuseError(f"the loader must give tokens; found none in {len(counted)} batches")
        return Tally(
            wall_s=self._wall_s,
            cpu_s=self._cpu_s,
            batches=len(counted),
            examples=sum(batch.examples for batch in counted),
            tokens=tokens,
            slots=sum(batch.slots for batch in counted),
            worst_padding_fraction=max(batch.padding_fraction for batch in counted),
            bytes_read=self._read_bytes,
            peak_pss_bytes=peak_pss_bytes,
            peak_rss_bytes=peak_rss_bytes,
            first_batch_s=self.puller.first_batch_s,
            counted_by=counted[0].rule,
            batch_bytes=size_in_bytes(self.puller.first_batch),
            behind_batches=self._behind,
        )


def run(
    loader: LoaderFactory,
    seconds: float,
    clock: Clock,
    closing: ExitStack,
    watch: Watch = UNWATCHED,
) -> Tally:
    """Return the counts of a loader's steady state over `seconds`."""
    running = LoaderRun(loader, clock, closing, watch)
    running.warm_up(seconds)
    running.count(seconds)
    return running.tally()


def run_in_turns(
    loader: LoaderFactory,
    channel: Connection,
    clock: Clock,
    closing: ExitStack,
    watch: Watch,
    seconds: float,
) -> None:
    """Call the methods of `LoaderRun` that the parent orders by name, until the parent is gone.

    The first answer, the arrays of the first batch, comes after a warm-up of at most `seconds`.
    """
    running = LoaderRun(loader, clock, closing, watch)
    running.warm_up(seconds)
    channel.send(describe_arrays(running.puller.first_batch))
    for method, *arguments in read_orders(channel, watch):
        channel.send(getattr(running, method)(*arguments) or {})


def longest_s(seconds: float) -> float:
    """Return the longest duration of a run after its first batch, if batches are fast."""
    return 2 * seconds + _MEMORY_S


def _peak_memory(puller: Puller, clock: Clock) -> Iterator[int]:
    """Return the peak PSS and RSS in bytes during another second of pulling."""
    started, samples = clock(), [read_memory()]
    while clock() - started < _MEMORY_S:
        puller.pull()
        samples.append(read_memory())
    return map(max, zip(*samples, strict=True))
