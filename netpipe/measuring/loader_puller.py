"""Pull batches from a loader: flat out, from drained buffers, or as a training loop does."""

import threading
import time
from collections import deque
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
from netpipe.jobs.processes import ProcessTree, is_of_xla, list_own_threads, thread_cpu_s
from netpipe.jobs.targets import Batch as Batch
from netpipe.jobs.targets import LoaderFactory as LoaderFactory

T = TypeVar("T")

_MIN_GROUP = 2
_MAX_GROUP = 16
# A longer burst of slow batches does not fit into the blocks of a round.
MAX_BURST_S = 1.5
# Batches come in bursts if the longest wait is at least this multiple of the mean wait.
_MIN_BURST_RATIO = 1.5
# Number of bursts that a block should hold. It is extended for them, at most MAX_EXTENSION times.
_MIN_BURSTS = 5
MAX_EXTENSION = 10
# Number of groups whose median shows whether the buffers are drained; fewer if groups are slow.
_DRAIN_GROUPS = 5
# Largest number of batches in a block, for loaders that take next to no time.
_MAX_BATCHES = 20_000
# The buffers count as drained once a batch takes this fraction of the typical load time.
_DRAINED_FRACTION = 0.7
# CPU use, in cores, below which a loader's buffers count as full.
QUIET_CORES = 0.1
_QUIET_SAMPLE_S = 0.03
_LATEST_BATCHES = 2
_ESTIMATE_TOLERANCE = 0.25
# Workers that take longer to stop are ended with the session.
_CLOSE_TIMEOUT_S = 1.0
# Epochs may differ in length, so a repeated window may contain the end of an epoch, too.
MAX_WINDOW_RUNS = 3


def block_s(enough_s: float, longest_wait_s: float, mean_wait_s: float) -> float:
    """Return the seconds of a block: more than `enough_s` if batches come in bursts.

    Reader threads hand over everything they have read ahead when a slow element arrives. A block
    that begins or ends between two such bursts contains one wait too many or too few.
    """
    if longest_wait_s < _MIN_BURST_RATIO * mean_wait_s:
        return enough_s
    return max(enough_s, min(_MIN_BURSTS * longest_wait_s, MAX_EXTENSION * enough_s))


@dataclass(frozen=True)
class PulledBatches:
    """The times of batches pulled flat out; `cpu_s` is the sum over all processes."""

    gaps_s: tuple[float, ...]
    cpu_s: float
    group: int

    @property
    def s_per_batch(self) -> float:
        """Wall seconds per batch."""
        return fmean(self.gaps_s)

    @property
    def typical_s_per_batch(self) -> float:
        """Wall seconds per batch without stutters: the median over bursts."""
        starts = range(0, len(self.gaps_s), self.group)
        return median(fmean(self.gaps_s[start : start + self.group]) for start in starts)

    @property
    def cpu_s_per_batch(self) -> float:
        """CPU seconds per batch, summed over all processes."""
        return self.cpu_s / len(self.gaps_s)


class Puller:
    """A running loader whose batches are timed; a finite one is started again when it ends.

    Attributes:
        pulled: Batches that the loader has given so far.
        making_s: Seconds that `loader()` took the first time.
        first_batch_s: Seconds until the first batch, including `making_s`.
        longest_start_s: The same for the slowest start.
        start_cpu_s: CPU seconds of this process and its descendants until the first batch.
        epoch_batches: Number of batches in the last epoch that ended; None until one ends.
        first_epoch_batches: Number of batches in the first one, by which hosts are compared.
        wanted_workers: The `num_workers` of a torch loader, which stops idle workers; else 0.
    """

    def __init__(self, loader: LoaderFactory, clock: Clock, watch: Watch = UNWATCHED) -> None:
        self._loader, self._clock, self._watch = loader, clock, watch
        self.pulled = self.restarts = self._epoch_began = 0
        self.latest: deque[Batch] = deque(maxlen=_LATEST_BATCHES)
        self.epoch_batches: int | None = None
        self.first_epoch_batches: int | None = None
        self._ignored_pids: tuple[int, ...] = ()
        started, threads = clock(), threading.active_count()
        self._thread_cpu_s: dict[int, float] = {}
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
        self._find_threads()
        self._find_processes()
        self.start_cpu_s = self.processes.cpu_s()

    @property
    def group(self) -> int:
        """Number of batches to average over: each worker or thread delivers one batch per burst."""
        return min(_MAX_GROUP, max(_MIN_GROUP, len(self.processes.pids), self._reader_threads))

    @property
    def helpers(self) -> tuple[int, int]:
        """Number of worker processes, and of threads that the loader has started in Python."""
        return len(self.processes.worker_pids), self._reader_threads

    def epoch_has(self, batches: int) -> bool:
        """Return whether the epoch has `batches` left; True while its length is unknown."""
        length = self.epoch_batches
        return length is None or self.pulled - self._epoch_began + batches <= length

    def ensure_epoch_has(self, batches: int) -> None:
        """Begin the next epoch unless this one has `batches` left, or as many as the next would."""
        if self.epoch_batches is None or self.epoch_has(min(batches, self.epoch_batches - 1)):
            return
        try:
            self.restart()
        finally:
            self._watch.note_wait(None)
        self.pulled += 1

    def run_within_epoch(
        self, batches: int, window: Callable[[], T], runs: int = MAX_WINDOW_RUNS
    ) -> tuple[T, bool]:
        """Run a timed window of `batches`, or of a whole epoch if that has fewer.

        If the loader restarts within the window, run it again, at most `runs` times in all. Return
        the result of the last run, and whether the loader did not restart in it.
        """
        for _ in range(runs):
            self.ensure_epoch_has(batches)
            restarts = self.restarts
            measured = window()
            if self.restarts == restarts:
                return measured, True
        return measured, False

    def _start(self) -> Iterator[Batch]:
        self._older_threads = list_own_threads()
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
        """Exclude child processes that do not belong to the loader."""
        self._ignored_pids = pids
        self._find_processes()

    def list_processes(self) -> ProcessTree:
        """Return the current children of this process, except the ignored processes."""
        return ProcessTree(without=self._ignored_pids)

    def _find_processes(self) -> None:
        self.processes = self.list_processes()
        self._watch.note_workers(self.processes.worker_pids)

    def _find_threads(self) -> None:
        """Record the threads that the loader has started, except those of an XLA client."""
        started = list_own_threads() - self._older_threads
        if any(map(is_of_xla, started)):
            started &= {thread.native_id for thread in threading.enumerate()}
        self._thread_cpu_s |= dict.fromkeys(started, 0.0)

    def loading_cpu_s(self) -> float:
        """Return the CPU seconds of the workers, or of the loader's threads if there are none.

        A thread that has ended counts with its last reading.
        """
        if self.processes.worker_pids:
            return self.processes.children_cpu_s()
        for thread, used_s in self._thread_cpu_s.items():
            self._thread_cpu_s[thread] = max(used_s, thread_cpu_s(thread))
        return sum(self._thread_cpu_s.values())

    def _next(self) -> Batch:
        self._watch.note_wait(self._clock(), starts=not self.pulled)
        try:
            batch = next(self._iterator)
        except StopIteration:
            self.epoch_batches = self.pulled - self._epoch_began
            self.first_epoch_batches = self.first_epoch_batches or self.epoch_batches
            batch = self.restart()
        except NetpipeError:
            raise
        except Exception as error:
            raise LoaderFailedError(
                f"the loader failed after {self.pulled} batches: {describe_error(error)}"
            ) from error
        finally:
            self._watch.note_wait(None)
        self.pulled += 1
        self.latest.append(batch)
        return batch

    def restart(self) -> Batch:
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
        self._find_threads()
        self._find_processes()
        return batch

    def _ended(self, how: str) -> LoaderEndedError:
        return LoaderEndedError(
            f"the loader ended after {self.pulled} batches and could not be started again: {how}. "
            "Make it repeat, or let loader() return a new one each time"
        )

    def pull(self) -> tuple[Batch, float]:
        """Return the next batch and the seconds spent waiting for it.

        The first batch after a restart is skipped, because starting workers is not loading.

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

        A second group is pulled unless the first took twice that time, or MAX_BURST_S with reader
        threads, because most of a burst may be the wait for a single read. With `in_epoch`, pulling
        stops before the end of an epoch of known length; with `whole_bursts`, it lasts as long as
        `block_s` returns.
        """
        cpu_s, started = self.processes.cpu_s(), self._clock()

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
        """Pull `batches` batches flat out; fewer if `limit_s` seconds pass or the epoch ends.

        A block that ends after a set time would over-represent pauses.
        """
        cpu_s, started, gaps_s = self.processes.cpu_s(), self._clock(), list[float]()
        while not gaps_s or (
            len(gaps_s) < batches and self._clock() - started < limit_s and self.epoch_has(1)
        ):
            gaps_s.append(self.pull()[1])
        return PulledBatches(tuple(gaps_s), self.processes.cpu_s() - cpu_s, self.group)

    def pull_until_steady(
        self, enough_s: float, least: int, limit_s: float, tolerance: float = _ESTIMATE_TOLERANCE
    ) -> PulledBatches:
        """Pull blocks of `enough_s` seconds until two successive load times agree; return the last.

        By then, buffers are empty and all workers have started. Blocks are not shorter if batches
        come fast, so deep buffers are emptied, too. At least `least` blocks are pulled, unless more
        than `limit_s` seconds have passed. Times agree to within the fraction `tolerance`.
        """
        started, previous_s = self._clock(), 0.0
        for tries in count(1):
            pulled = self.pull_flat_out(enough_s)
            load_s = pulled.s_per_batch
            agrees = abs(load_s - previous_s) <= tolerance * load_s
            if self._clock() - started > limit_s or (agrees and tries >= least):
                break
            previous_s = load_s
        return pulled

    def _pull_group_s(self) -> list[float]:
        """Pull a group, or the part of it that comes within MAX_BURST_S; return the waits."""
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
        """Pull until the buffers are empty; return whether they are, and the batches they held.

        Args:
            load_s: The estimated steady seconds per batch.
            typical_s: The same without stutters.
            enough_s: Seconds that may be spent on making sure that the buffers are drained.
            limit_s: Seconds after which to give up. Draining also ends when the epoch has only as
                many batches left as a measurement needs.
            most_buffered: The most batches that the buffers can hold. If more come, the loader has
                become faster than `typical_s`.
        """
        # A stutter makes a single group look drained, so the median of several groups is compared
        # with the median of a drained loader.
        wanted = max(1, min(_DRAIN_GROUPS, int(enough_s / (self.group * load_s))))
        started, pulled, groups_s = self._clock(), 0, list[float]()
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
            # Buffered batches arrive at once, so this time is enough to empty even deep buffers.
            if pulled > most_buffered and self._clock() - started >= enough_s:
                self._note_empty()
                return True, 0.0
        return False, float(pulled)

    def _note_empty(self) -> None:
        self._empty_s, self._empty_at = self._clock(), self.pulled

    def bound_buffered(self, load_s: float) -> float:
        """Return the most batches that the buffers can hold if each took half of `load_s` to make.

        Only batches made since the buffers were last empty count, because the loader may have
        slowed down after its start.
        """
        return 2 * (self._clock() - self._empty_s) / load_s - (self.pulled - self._empty_at)

    def wait_for_full_buffers(self, limit_s: float) -> None:
        """Wait up to `limit_s` seconds until the loader uses next to no CPU."""
        wait_until_quiet(self.processes.cpu_s, self._clock, limit_s)

    def close(self) -> None:
        """Close the iterator, if it has a `close`, and release it."""
        iterator, self._iterator = self._iterator, iter(())
        close = getattr(iterator, "close", None)
        if close is not None:
            close()


def close_with_timeout(close: Callable[[], None], limit_s: float | None = None) -> bool:
    """Close a loader in a thread; return whether `close` returned or failed within the limit."""
    closing = threading.Thread(target=close, name="netpipe-close", daemon=True)
    closing.start()
    closing.join(_CLOSE_TIMEOUT_S if limit_s is None else limit_s)
    return not closing.is_alive()


def wait_until_quiet(cpu_s: Callable[[], float], clock: Clock, limit_s: float) -> None:
    """Wait up to `limit_s` seconds until `cpu_s` hardly increases.

    `cpu_s` returns the CPU seconds used by this process and others. Reading them takes milliseconds
    if there are hundreds of threads, so this thread's own time does not count.
    """

    def others_s() -> float:
        own_s = time.thread_time()
        return cpu_s() - own_s

    started = at_s = clock()
    used_s = others_s()
    while at_s - started < limit_s:
        clock.sleep(_QUIET_SAMPLE_S)
        (before_s, at_s), before_used_s = (at_s, clock()), used_s
        used_s = others_s()
        if used_s - before_used_s < QUIET_CORES * (at_s - before_s):
            return
