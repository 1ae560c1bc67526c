"""Pulling batches from a loader: flat out, from drained buffers, or as a training loop does."""

import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import count
from math import inf
from statistics import fmean, median
from typing import TypeVar

from netpipe.clock import Clock
from netpipe.errors import (
    LoaderEndedError,
    LoaderFailedError,
    MisuseError,
    NetpipeError,
    describe_error,
)
from netpipe.jobs.heartbeat import UNWATCHED, Watch
from netpipe.jobs.processes import ProcessTree
from netpipe.jobs.targets import Batch as Batch
from netpipe.jobs.targets import LoaderFactory as LoaderFactory

T = TypeVar("T")

_MIN_GROUP = 2
_MAX_GROUP = 16
# A longer burst of slow batches does not fit into the blocks of a round.
MAX_BURST_S = 1.5
# Over the mean wait for a batch, that for the first one of a burst.
_MIN_BURST_RATIO = 1.5
# Of a loader that gives its batches in bursts, how many there are in a block.
_MIN_BURSTS = 5
# Of the time that was asked for, a block with whole bursts takes so many times at most.
MAX_EXTENSION = 10
# Groups whose median says whether the buffers are drained; fewer when groups are slow.
_DRAIN_GROUPS = 5
# Batches in a block, for loaders that cost nothing.
_MAX_BATCHES = 20_000
# Share of the typical load time from which the buffers count as drained.
_DRAINED_FRACTION = 0.7
# CPU use, in cores, below which a loader's buffers count as full.
_QUIET_CORES = 0.1
_QUIET_SAMPLE_S = 0.03
_ESTIMATE_TOLERANCE = 0.25
# Seconds to wait for workers to stop; slower ones are ended with the session.
_CLOSE_TIMEOUT_S = 1.0
# Runs of a window that the end of an epoch fell into; epochs may differ in length.
MAX_WINDOW_RUNS = 3


def block_s(enough_s: float, longest_wait_s: float, mean_wait_s: float) -> float:
    """Return how long a block lasts: longer than `enough_s` if batches come in bursts.

    Reader threads hand over all that they have read ahead when a slow element is there at last; a
    block that begins or ends between two such bursts has a wait too many, or too few.
    """
    if longest_wait_s < _MIN_BURST_RATIO * mean_wait_s:
        return enough_s
    return max(enough_s, min(_MIN_BURSTS * longest_wait_s, MAX_EXTENSION * enough_s))


@dataclass(frozen=True)
class PulledBatches:
    """A block of flat-out pulls; `cpu_s` is of all processes."""

    gaps_s: tuple[float, ...]
    cpu_s: float
    group: int

    @property
    def s_per_batch(self) -> float:
        """Wall seconds per batch."""
        return fmean(self.gaps_s)

    @property
    def typical_s_per_batch(self) -> float:
        """Wall seconds per batch where loading does not stutter: the median over bursts."""
        starts = range(0, len(self.gaps_s), self.group)
        return median(fmean(self.gaps_s[start : start + self.group]) for start in starts)

    @property
    def cpu_s_per_batch(self) -> float:
        """CPU seconds per batch, all processes."""
        return self.cpu_s / len(self.gaps_s)


class Puller:
    """A running loader that times its batches; a finite one is made again when it has ended.

    Attributes:
        pulled: Batches that the loader has given so far.
        making_s: Seconds that `loader()` took the first time.
        first_batch_s: Seconds to the first batch, `making_s` included.
        longest_start_s: The same for the slowest start.
        epoch_batches: Batches that it gave when it last ended; None: it has not ended yet.
        wanted_workers: The `num_workers` of torch's loaders, which end those that have nothing to
            load; else 0.
    """

    def __init__(self, loader: LoaderFactory, clock: Clock, watch: Watch = UNWATCHED) -> None:
        self._loader = loader
        self._clock = clock
        self._watch = watch
        self.pulled = 0
        self.restarts = 0
        self.epoch_batches: int | None = None
        self._epoch_began = 0
        self._ignored_pids: tuple[int, ...] = ()
        started, threads = clock(), threading.active_count()
        watch.note_wait(started, starts=True)
        try:
            self._iterator = self._start()
        except BaseException:
            watch.note_wait(None)
            raise
        self.making_s = self._made_s - started
        self.first_batch = self._next()
        self.longest_start_s = self.first_batch_s = clock() - started
        self._reader_threads = threading.active_count() - threads
        self._find_processes()

    @property
    def group(self) -> int:
        """Pulls to average together: workers and threads deliver in bursts of one batch each."""
        return min(_MAX_GROUP, max(_MIN_GROUP, len(self.processes.pids), self._reader_threads))

    def epoch_has(self, batches: int) -> bool:
        """Return whether the epoch has so many batches left, as far as its length is known."""
        if self.epoch_batches is None:
            return True
        return self.pulled - self._epoch_began + batches <= self.epoch_batches

    def ensure_epoch_has(self, batches: int) -> None:
        """Begin the next epoch if this one has fewer batches left and a new one has more."""
        if self.epoch_batches is None or self.epoch_has(min(batches, self.epoch_batches - 1)):
            return
        try:
            self._restart()
        finally:
            self._watch.note_wait(None)
        self.pulled += 1

    def run_within_epoch(
        self, batches: int, window: Callable[[], T], runs: int = MAX_WINDOW_RUNS
    ) -> tuple[T, bool]:
        """Run a timed window of some batches, or of all that an epoch has.

        If the loader restarted in it, it runs again from the start of the next epoch. Return what
        the last run measured, and whether it had no restart.
        """
        for _ in range(runs):
            self.ensure_epoch_has(batches)
            restarts = self.restarts
            measured = window()
            if self.restarts == restarts:
                return measured, True
        return measured, False

    def _start(self) -> Iterator[Batch]:
        loader = self._loader()
        self._made_s = self._clock()
        self._note_empty()
        if not isinstance(loader, Iterable):
            raise MisuseError(
                f"loader() must return an iterable of batches; found {type(loader).__name__}"
            )
        wanted = getattr(loader, "num_workers", 0)
        self.wanted_workers = wanted if isinstance(wanted, int) else 0
        return iter(loader)

    def ignore_processes(self, pids: tuple[int, ...]) -> None:
        """Do not count some children of this process as the loader's."""
        self._ignored_pids = pids
        self._find_processes()

    def list_processes(self) -> ProcessTree:
        """Return this process's children of this moment, without those that do not count."""
        return ProcessTree(without=self._ignored_pids)

    def _find_processes(self) -> None:
        self.processes = self.list_processes()
        self._watch.note_workers(self.processes.worker_pids)

    def _next(self) -> Batch:
        self._watch.note_wait(self._clock(), starts=not self.pulled)
        try:
            batch = next(self._iterator)
        except StopIteration:
            self.epoch_batches = self.pulled - self._epoch_began
            batch = self._restart()
        except NetpipeError:
            raise
        except Exception as error:
            raise LoaderFailedError(
                f"the loader failed after {self.pulled} batches: {describe_error(error)}"
            ) from error
        finally:
            self._watch.note_wait(None)
        self.pulled += 1
        return batch

    def _restart(self) -> Batch:
        """Start the loader again and return its first batch."""
        if not self.pulled:
            raise MisuseError("loader() gave no batch: it must give at least one")
        started = self._clock()
        self._watch.note_wait(started, starts=True)
        try:
            close_with_timeout(self.close)
            self._iterator = self._start()
            batch = next(self._iterator)
        except StopIteration:
            raise self._ended("the next one that loader() returned gave none") from None
        except Exception as error:
            raise self._ended(f"that raised {describe_error(error)}") from error
        self.restarts += 1
        self.longest_start_s = max(self.longest_start_s, self._clock() - started)
        self._epoch_began = self.pulled
        self._find_processes()
        return batch

    def _ended(self, how: str) -> LoaderEndedError:
        return LoaderEndedError(
            f"the loader ended after {self.pulled} batches and could not be started again: {how}. "
            "Let it go on (repeat), or let loader() make a new one each time"
        )

    def pull(self) -> tuple[Batch, float]:
        """Return the next batch and the seconds that it was waited for.

        The first batch after a restart is left out, because starting workers is not loading.

        Raises:
            LoaderEndedError: The loader has ended and cannot be started again.
            LoaderFailedError: The loader raised an exception.
        """
        restarts, asked = self.restarts, self._clock()
        batch = self._next()
        if self.restarts != restarts:
            asked = self._clock()
            batch = self._next()
        return batch, self._clock() - asked

    def pull_flat_out(
        self, enough_s: float, *, in_epoch: bool = False, whole_bursts: bool = False
    ) -> PulledBatches:
        """Pull whole groups of batches as fast as they come, for `enough_s` seconds.

        These are at least two groups, or one of a loader that takes twice as long for it; of one
        burst of reader threads, most may be the wait for a single read. With `in_epoch` pulling
        stops before the epoch ends, as far as its length is known; with `whole_bursts` it goes on
        where batches come in bursts, as `block_s` says.
        """
        started, cpu_s = self._clock(), self.processes.cpu_s()

        def goes_on(until_s: float) -> bool:
            in_time = self._clock() - started < until_s
            return in_time and (not in_epoch or self.epoch_has(self.group))

        gaps_s = self._pull_group_s()
        if goes_on(MAX_BURST_S if self._reader_threads >= self.group else 2 * enough_s):
            gaps_s += self._pull_group_s()
        while len(gaps_s) < _MAX_BATCHES and goes_on(
            block_s(enough_s, max(gaps_s), fmean(gaps_s)) if whole_bursts else enough_s
        ):
            gaps_s += self._pull_group_s()
        return PulledBatches(tuple(gaps_s), self.processes.cpu_s() - cpu_s, self.group)

    def pull_batches(self, batches: int, limit_s: float) -> PulledBatches:
        """Pull a number of batches flat out; fewer after `limit_s` seconds or where an epoch ends.

        Pauses are not over-represented, as they are in a block that ends after a set time.
        """
        started, cpu_s, gaps_s = self._clock(), self.processes.cpu_s(), list[float]()
        while not gaps_s or (
            len(gaps_s) < batches and self._clock() - started < limit_s and self.epoch_has(1)
        ):
            gaps_s.append(self.pull()[1])
        return PulledBatches(tuple(gaps_s), self.processes.cpu_s() - cpu_s, self.group)

    def pull_until_steady(self, enough_s: float, least: int, limit_s: float) -> PulledBatches:
        """Pull flat out for `enough_s` seconds again and again until two load times agree.

        By then buffers are empty and all workers have started. Each time is as long, however fast
        batches come, which empties a deep buffer. There are at least `least` of them; after
        `limit_s` seconds the last one counts.
        """
        started, previous_s = self._clock(), 0.0
        for tries in count(1):
            pulled = self.pull_flat_out(enough_s)
            load_s = pulled.s_per_batch
            agrees = abs(load_s - previous_s) <= _ESTIMATE_TOLERANCE * load_s
            if self._clock() - started > limit_s or (agrees and tries >= least):
                break
            previous_s = load_s
        return pulled

    def _pull_group_s(self) -> list[float]:
        """Pull a group, or what comes of it in the time of the longest burst."""
        started, gaps_s = self._clock(), list[float]()
        least = max(_MIN_GROUP, len(self.processes.pids))
        while len(gaps_s) < self.group and (
            len(gaps_s) < least or self._clock() - started < MAX_BURST_S
        ):
            gaps_s.append(self.pull()[1])
        return gaps_s

    def drain(
        self,
        load_s: float,
        typical_s: float,
        enough_s: float,
        limit_s: float,
        most_buffered: float = inf,
    ) -> tuple[bool, float]:
        """Pull until batches no longer come out of the buffers; return whether, and how many did.

        Args:
            load_s: The loader's steady seconds per batch, as far as they are known.
            typical_s: The same where loading does not stutter.
            enough_s: Seconds that may be spent to make sure that the buffers are drained.
            limit_s: Seconds after which to give up. It also gives up in an epoch that is known to
                have no more batches left than a measurement needs.
            most_buffered: Batches that can be in the buffers: if more come, the loader has become
                faster than `typical_s`.
        """
        # In a single group a stutter looks like a drained loader; the median over several groups
        # does not, when it is compared with the median of a drained loader.
        wanted = max(1, min(_DRAIN_GROUPS, int(enough_s / (self.group * load_s))))
        started, pulled = self._clock(), 0
        groups_s: list[float] = []
        while (
            self._clock() - started < limit_s
            and pulled < _MAX_BATCHES
            and self.epoch_has(2 * self.group)
        ):
            gaps_s = self._pull_group_s()
            groups_s.append(fmean(gaps_s))
            pulled += len(gaps_s)
            recent_s = median(groups_s[-wanted:])
            if len(groups_s) >= wanted and recent_s >= _DRAINED_FRACTION * typical_s:
                made = (self._clock() - started) / load_s
                self._note_empty()
                return True, max(0.0, pulled - made)
            # Buffered batches come at once, so that a block's time empties deep buffers too.
            if pulled > most_buffered and self._clock() - started >= enough_s:
                self._note_empty()
                return True, 0.0
        return False, float(pulled)

    def _note_empty(self) -> None:
        self._empty_s, self._empty_at = self._clock(), self.pulled

    def bound_buffered(self, load_s: float) -> float:
        """Return how many batches can be in the buffers, each made in `load_s` or half of it.

        Only what was made after the buffers were last empty counts: the loader may have become
        slower since it started.
        """
        return 2 * (self._clock() - self._empty_s) / load_s - (self.pulled - self._empty_at)

    def wait_for_full_buffers(self, limit_s: float) -> None:
        """Wait until the loader uses next to no CPU, but for no longer than `limit_s` seconds."""
        wait_until_quiet(self.processes.cpu_s, self._clock, limit_s)

    def close(self) -> None:
        """Stop the loader's workers, if its iterator has a `close`, and let go of it."""
        iterator, self._iterator = self._iterator, iter(())
        close = getattr(iterator, "close", None)
        if close is not None:
            close()


def close_with_timeout(close: Callable[[], None], limit_s: float | None = None) -> bool:
    """Stop a loader's workers in a thread, and wait a little for those that are slow or hang.

    Return whether they stopped, or their `close` failed, within the limit.
    """
    closing = threading.Thread(target=close, name="netpipe-close", daemon=True)
    closing.start()
    closing.join(_CLOSE_TIMEOUT_S if limit_s is None else limit_s)
    return not closing.is_alive()


def wait_until_quiet(cpu_s: Callable[[], float], clock: Clock, limit_s: float) -> None:
    """Wait until processes use next to no CPU, by a function that reads their CPU seconds."""
    started = clock()
    while (before := clock()) - started < limit_s:
        used_s = cpu_s()
        clock.sleep(_QUIET_SAMPLE_S)
        if cpu_s() - used_s < _QUIET_CORES * (clock() - before):
            return
