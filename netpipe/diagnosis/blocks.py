"""A block of batches pulled flat out, by one thread or by several with a loader each."""

import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import astuple, dataclass
from functools import partial
from math import inf
from pathlib import Path
from typing import Any, Final, NamedTuple

from netpipe.clock import Clock
from netpipe.diagnosis.stage_ablation import copying_s
from netpipe.measuring.loader_puller import LoaderFactory, Puller
from netpipe.session.heartbeat import UNWATCHED, Watch
from netpipe.session.processes import ProcessTree

MIN_BATCHES: Final = 2

_FIRST_LOOK: Final = 3  # batches
_WARM_UP_SHARE: Final = 0.25  # of a block, before it: what was made ahead comes in no time
_LEAST_SHARE: Final = 0.05  # of its time that a thread is taken to have run
_CLOSING_S: Final = 10.0  # Grain stops its workers one after the other
_LEAST_CPU_S: Final = 1e-9  # what ratios are made of is never nothing
_IO: Final = Path("/proc/self/io")
_SCHEDULING: Final = Path("/proc/thread-self/schedstat")


@dataclass(frozen=True)
class Block:
    """What pulling for a while took.

    Attributes:
        s_per_batch: Wall seconds of a batch, all pulling threads together.
        undelayed_s_per_batch: The same without the time that those threads waited for a core which
            another program had; that of a machine with nothing else to do. It is without copies
            too, which only a loader that does nothing meanwhile may leave out.
        trainer_cpu_s_per_batch: CPU seconds of this process, all its threads.
        workers_cpu_s_per_batch: CPU seconds of its children.
        read_bytes_per_batch: Bytes that came from a disk, not from the page cache; 0 where the
            kernel does not tell.
    """

    s_per_batch: float
    undelayed_s_per_batch: float
    trainer_cpu_s_per_batch: float
    workers_cpu_s_per_batch: float = 0.0
    read_bytes_per_batch: float = 0.0

    @property
    def cpu_s_per_batch(self) -> float:
        """CPU seconds of all processes."""
        return self.trainer_cpu_s_per_batch + self.workers_cpu_s_per_batch


@dataclass(frozen=True)
class PullCost:
    """What one thread pulled.

    Attributes:
        batches: How many; without the first one of a loader that had ended and was started again.
        wall_s: Seconds that they took.
        delay_s: Seconds that the thread waited for a core; 0 where the kernel does not tell.
        restarts: How often the loader had ended.
        restarts_own_cpu_s: CPU seconds of this process while it was started again.
        restarts_workers_cpu_s: Those of its children, which start and end then.
        copying_s: CPU seconds that the thread copied for an intervention.
    """

    batches: int
    wall_s: float
    delay_s: float
    restarts: int = 0
    restarts_own_cpu_s: float = 0.0
    restarts_workers_cpu_s: float = 0.0
    copying_s: float = 0.0

    @property
    def undelayed_s(self) -> float:
        """Seconds that they would have taken on a core of its own, without copies."""
        return max(_LEAST_SHARE * self.wall_s, self.wall_s - self.delay_s - self.copying_s)


class PullingThread:
    """A thread that pulls from a loader of its own; the loader is only ever touched by it.

    Args:
        loader: Makes the loader.
        clock: Seconds.
        watch: Told of every wait for a batch.
        until_s: When to stop after a single batch, on the clock.
    """

    def __init__(
        self,
        loader: LoaderFactory,
        clock: Clock,
        watch: Watch = UNWATCHED,
        until_s: float = inf,
    ) -> None:
        self._clock = clock
        self._until_s = until_s
        self._restarts = _Restarts(loader)
        self._thread = ThreadPoolExecutor(1, "netpipe-lane")
        try:
            make = partial(Puller, self._restarts.started, clock, watch)
            self._puller = self._thread.submit(make).result()
        except BaseException:
            self._thread.shutdown()
            raise

    def start_pulling(self, enough_s: float, least: int = MIN_BATCHES) -> Callable[[], PullCost]:
        """Start to pull for a while; return what waits for the end.

        Args:
            enough_s: Seconds after which to stop, once there are enough batches.
            least: As many as are enough.
        """
        return self._thread.submit(self._pull, enough_s, least).result

    def _pull(self, enough_s: float, least: int) -> PullCost:
        started, delay_s, batches, wall_s = self._clock(), _delay_s(), 0, 0.0
        copied_s = copying_s()
        self._restarts.forget()
        while not batches or (
            self._clock() < self._until_s
            and (batches < least or self._clock() - started < enough_s)
        ):
            restarts = self._puller.restarts
            wall_s += self._puller.pull()[1]
            batches += 1
            if self._puller.restarts != restarts:
                self._restarts.over()
        spent = (*astuple(self._restarts.spent), copying_s() - copied_s)
        return PullCost(batches, wall_s, _delay_s() - delay_s, *spent)

    def close(self) -> None:
        """Stop the loader, where it knows how to."""
        closing = self._thread.submit(self._puller.close)
        # A loader that cannot be closed ends with its process.
        is_over = wait([closing], _CLOSING_S).done
        self._thread.shutdown(wait=bool(is_over))


@dataclass(frozen=True)
class _Spent:
    """What starting a loader again took; as of `PullCost`."""

    restarts: int = 0
    own_cpu_s: float = 0.0
    workers_cpu_s: float = 0.0


class _Restarts:
    """Counts what it takes to start a loader again that has ended: that is not loading.

    Args:
        loader: Makes the loader.
    """

    def __init__(self, loader: LoaderFactory) -> None:
        self._loader = loader
        self.forget()

    def forget(self) -> None:
        """Count from nothing."""
        self.spent = _Spent()

    def started(self) -> Iterable[Any]:
        """Make the loader, and note what had been used until then."""
        self._own_s = time.process_time() - copying_s()
        self._workers_s = _workers_cpu_s()
        return self._loader()

    def over(self) -> None:
        """Note that the loader which was made last has given its first batch."""
        spent, workers_s = self.spent, _workers_cpu_s() - self._workers_s
        self.spent = _Spent(
            spent.restarts + 1,
            spent.own_cpu_s + time.process_time() - copying_s() - self._own_s,
            spent.workers_cpu_s + workers_s,
        )


def _workers_cpu_s() -> float:
    """Return the CPU seconds of the children, of those too that have ended."""
    everything_s = ProcessTree().cpu_s()
    return everything_s - time.process_time()


def measure_block(lanes: Sequence[PullingThread], enough_s: float) -> Block:
    """Let lanes pull at the same time, and return what a batch took.

    Args:
        lanes: At least one.
        enough_s: Seconds that each pulls at least, behind a warm-up that does not count.
    """
    for pulled in [lane.start_pulling(_WARM_UP_SHARE * enough_s) for lane in lanes]:
        pulled()
    return _counted(lambda: [lane.start_pulling(enough_s) for lane in lanes])


def measure_batch_count(lane: PullingThread, count: int) -> Block:
    """Let a lane pull so many batches."""
    return _counted(lambda: [lane.start_pulling(0.0, least=count)])


def _counted(start: Callable[[], list[Callable[[], PullCost]]]) -> Block:
    workers_s, own_s, read = _workers_cpu_s(), time.process_time(), _read_bytes()
    pulled = [result() for result in start()]
    own_s, read = time.process_time() - own_s, _read_bytes() - read
    own_s -= sum(one.copying_s for one in pulled)
    workers_s = _workers_cpu_s() - workers_s
    batches = sum(one.batches for one in pulled)
    # Of a loader that has ended with every batch, nothing is left that is not starting it.
    if loading := batches - sum(one.restarts for one in pulled):
        own_s -= sum(one.restarts_own_cpu_s for one in pulled)
        workers_s -= sum(one.restarts_workers_cpu_s for one in pulled)
    made = loading or batches
    return Block(
        s_per_batch=1 / sum(one.batches / one.wall_s for one in pulled),
        undelayed_s_per_batch=1 / sum(one.batches / one.undelayed_s for one in pulled),
        trainer_cpu_s_per_batch=max(_LEAST_CPU_S, own_s) / made,
        workers_cpu_s_per_batch=max(0.0, workers_s) / made,
        read_bytes_per_batch=read / batches,
    )


def measure_fresh_block(
    loader: LoaderFactory, enough_s: float, clock: Clock, watch: Watch, until_s: float = inf
) -> Block:
    """Start a loader, whose buffers are empty then, pull a block of batches, and stop it."""
    lane = PullingThread(loader, clock, watch, until_s)
    try:
        return measure_block([lane], enough_s)
    finally:
        lane.close()


class FirstLook(NamedTuple):
    """Seconds that a start takes, and about those that a batch takes."""

    start_s: float
    batch_s: float


def take_first_look(loader: LoaderFactory, clock: Clock, watch: Watch, until_s: float) -> FirstLook:
    """Start a loader, pull a few batches, and stop it."""
    started = clock()
    lane = PullingThread(loader, clock, watch, until_s)
    start_s = clock() - started
    try:
        pulled = lane.start_pulling(0.0, least=_FIRST_LOOK)()
    finally:
        lane.close()
    return FirstLook(start_s, pulled.wall_s / pulled.batches)


def _delay_s() -> float:
    """Return how long this thread has been ready to run and had no core: proc_pid_schedstat(5)."""
    with suppress(OSError, IndexError, ValueError):
        return int(_SCHEDULING.read_text(encoding="ascii").split()[1]) / 1e9
    return 0.0


def _read_bytes() -> int:
    with suppress(OSError, StopIteration, ValueError):
        lines = _IO.read_text(encoding="ascii").splitlines()
        return int(next(line for line in lines if line.startswith("read_bytes:")).split()[1])
    return 0
