"""Pulling batches from a loader: flat out, drained, or as a training loop does."""

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Any

from netpipe.clock import Clock
from netpipe.errors import LoaderEndedError, LoaderFailedError, MisuseError, NetpipeError
from netpipe.session.heartbeat import UNWATCHED, Watch
from netpipe.session.processes import ProcessTree

Batch = Any
LoaderFactory = Callable[[], Iterable[Batch]]

_LEAST_GROUP = 2
_MOST_GROUP = 16
_GROUPS = 5  # groups whose median says whether the buffers are drained; fewer when they are slow
_MOST_BATCHES = 20_000  # in a block, of a loader that costs nothing
_DRAINED_SHARE = 0.7  # of the steady load time, where nothing stutters
_QUIET_CORES = 0.1  # CPU use below which a loader's buffers count as full
_QUIET_LOOK_S = 0.03
_CLOSING_S = 1.0  # a worker that takes longer is ended with the session


@dataclass(frozen=True)
class PulledBatches:
    """What a block of flat-out pulls took.

    Attributes:
        gaps_s: Seconds from each batch to the next.
        cpu_s: CPU seconds of all processes in that time.
        group: Batches that come together, in a burst.
    """

    gaps_s: tuple[float, ...]
    cpu_s: float
    group: int

    @property
    def s_per_batch(self) -> float:
        """Wall seconds of one batch."""
        return sum(self.gaps_s) / len(self.gaps_s)

    @property
    def typical_s_per_batch(self) -> float:
        """Wall seconds of one batch where nothing stutters: the median over bursts."""
        return median(map(fmean, batched(self.gaps_s, self.group)))

    @property
    def cpu_s_per_batch(self) -> float:
        """CPU seconds of one batch, all processes."""
        return self.cpu_s / len(self.gaps_s)


class Puller:
    """One running loader and the time that its batches take.

    Args:
        loader: Makes the loader; called again when a finite loader has ended.
        clock: Seconds.
        watch: Told of every wait for a batch, and of the processes that load.

    Attributes:
        pulled: Batches that the loader has given so far.
        making_s: Seconds that `loader()` and `iter` took the first time.
        first_batch_s: Seconds from there to the first batch, with those.
        longest_start_s: Seconds until the first batch, where it took longest to start.
        restarts: How often it had ended and was started again.
        epoch_batches: Batches that it gave when it last ended; None: it has not ended yet.
    """

    def __init__(self, loader: LoaderFactory, clock: Clock, watch: Watch = UNWATCHED) -> None:
        self._loader = loader
        self._clock = clock
        self._watch = watch
        self.pulled = 0
        self.restarts = 0
        self.epoch_batches: int | None = None
        self._epoch_began = 0
        self._strangers: tuple[int, ...] = ()
        started = clock()
        watch.note_wait(started, starts=True)
        try:
            self._iterator = self._start()
        except BaseException:
            watch.note_wait(None)
            raise
        self.making_s = clock() - started
        self.first_batch = self._next()
        self.longest_start_s = self.first_batch_s = clock() - started
        self._look_at_processes()

    @property
    def group(self) -> int:
        """Pulls to average together: several workers deliver in bursts of one batch each."""
        return min(_MOST_GROUP, max(_LEAST_GROUP, self.processes.children))

    def epoch_has(self, batches: int) -> bool:
        """Return whether the epoch has so many batches left, as far as its length is known."""
        if self.epoch_batches is None:
            return True
        return self.pulled - self._epoch_began + batches <= self.epoch_batches

    def ensure_epoch_has(self, batches: int) -> None:
        """Begin the next epoch if this one is known to have fewer batches left than a new one has.

        Raises:
            LoaderEndedError: The loader cannot be started again.
        """
        if self.epoch_batches is None or self.epoch_has(min(batches, self.epoch_batches - 1)):
            return
        try:
            self._restarted()
        finally:
            self._watch.note_wait(None)
        self.pulled += 1

    def _start(self) -> Iterator[Batch]:
        loader = self._loader()
        if not isinstance(loader, Iterable):
            raise MisuseError(
                f"loader() must return an iterable of batches; found {type(loader).__name__}"
            )
        return iter(loader)

    def ignore_processes(self, pids: tuple[int, ...]) -> None:
        """Take some children of this process for none of the loader's."""
        self._strangers = pids
        self._look_at_processes()

    def _look_at_processes(self) -> None:
        self.processes = ProcessTree(without=self._strangers)
        self._watch.note_workers(self.processes.worker_pids)

    def _next(self) -> Batch:
        self._watch.note_wait(self._clock(), starts=not self.pulled)
        try:
            batch = self._given()
        except StopIteration:
            self.epoch_batches = self.pulled - self._epoch_began
            batch = self._restarted()
        finally:
            self._watch.note_wait(None)
        self.pulled += 1
        return batch

    def _given(self) -> Batch:
        try:
            return next(self._iterator)
        except (StopIteration, NetpipeError):
            raise
        except Exception as error:
            raise LoaderFailedError(
                f"the loader failed after {self.pulled} batches: {type(error).__name__}: {error}"
            ) from error

    def _restarted(self) -> Batch:
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
            raise self._ended(f"that raised {type(error).__name__}: {error}") from error
        self.restarts += 1
        self.longest_start_s = max(self.longest_start_s, self._clock() - started)
        self._epoch_began = self.pulled
        self._look_at_processes()
        return batch

    def _ended(self, how: str) -> LoaderEndedError:
        return LoaderEndedError(
            f"the loader ended after {self.pulled} batches and could not be started again: {how}. "
            "Let it go on (repeat), or let loader() make a new one each time"
        )

    def pull(self) -> tuple[Batch, float]:
        """Return the next batch and the seconds that it was waited for.

        The first batch of a loader that was started again waits for its workers to start, which
        is not loading: it is left out.

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

    def pull_flat_out(self, enough_s: float, *, in_epoch: bool = False) -> PulledBatches:
        """Pull whole groups of batches as fast as they come and throw them away.

        Args:
            enough_s: Seconds after which to stop, once there are two groups; one is enough for a
                loader that takes twice as long for it.
            in_epoch: Whether to stop before the epoch ends, as far as its length is known.
        """
        started, cpu_s = self._clock(), self.processes.cpu_s()

        def goes_on(until_s: float) -> bool:
            has_batches = not in_epoch or self.epoch_has(self.group)
            return has_batches and self._clock() - started < until_s

        gaps_s = self._groups_s(1)
        if goes_on(2 * enough_s):
            gaps_s += self._groups_s(1)
        while goes_on(enough_s) and len(gaps_s) < _MOST_BATCHES:
            gaps_s += self._groups_s(1)
        return PulledBatches(tuple(gaps_s), self.processes.cpu_s() - cpu_s, self.group)

    def _groups_s(self, groups: int) -> list[float]:
        return [self.pull()[1] for _ in range(groups * self.group)]

    def drain(
        self, load_s: float, typical_s: float, enough_s: float, limit_s: float
    ) -> tuple[bool, float]:
        """Pull flat out until the buffers no longer lend speed.

        Args:
            load_s: The loader's steady seconds a batch, as far as they are known.
            typical_s: The same where nothing stutters.
            enough_s: Seconds that may be spent to make sure of a drained loader.
            limit_s: Seconds after which to give up; an epoch is also given up once it is known to
                have no more batches left than a measurement needs.

        Returns:
            Whether the buffers are drained, and how many batches they had lent.
        """
        # A stutter looks drained too: the median over several groups sees through it, held
        # against what is the median of a drained loader.
        wanted = max(1, min(_GROUPS, int(enough_s / (self.group * load_s))))
        started, pulled = self._clock(), 0
        groups_s: list[float] = []
        while (
            self._clock() - started < limit_s
            and pulled < _MOST_BATCHES
            and self.epoch_has(2 * self.group)
        ):
            groups_s.append(fmean(self._groups_s(1)))
            pulled += self.group
            recent_s = median(groups_s[-wanted:])
            if len(groups_s) >= wanted and recent_s >= _DRAINED_SHARE * typical_s:
                lent = pulled - (self._clock() - started) / load_s
                return True, max(0.0, lent)
        return False, float(pulled)

    def wait_for_full_buffers(self, limit_s: float) -> None:
        """Wait until the loader's buffers are full: until it uses next to no CPU.

        Args:
            limit_s: Seconds after which to go on regardless.
        """
        wait_until_quiet(self.processes.cpu_s, self._clock, limit_s)

    def close(self) -> None:
        """Stop the loader's workers, where it knows how to."""
        close = getattr(self._iterator, "close", None)
        if close is not None:
            close()


def close_with_timeout(close: Callable[[], None]) -> None:
    """Stop a loader's workers, and wait a little for those that take long or hang."""
    closing = threading.Thread(target=close, name="netpipe-close", daemon=True)
    closing.start()
    closing.join(_CLOSING_S)


def wait_until_quiet(cpu_s: Callable[[], float], clock: Clock, limit_s: float) -> None:
    """Wait until processes use next to no CPU.

    Args:
        cpu_s: Reads the CPU seconds that they have used.
        clock: Seconds.
        limit_s: Seconds after which to go on regardless.
    """
    started = clock()
    while (before := clock()) - started < limit_s:
        used_s = cpu_s()
        clock.sleep(_QUIET_LOOK_S)
        if cpu_s() - used_s < _QUIET_CORES * (clock() - before):
            return


def batched(values: Sequence[float], size: int) -> Iterator[Sequence[float]]:
    """Give the values in runs of `size`, the last maybe shorter, as itertools does from 3.12."""
    for start in range(0, len(values), size):
        yield values[start : start + size]
