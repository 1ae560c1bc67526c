"""A block of batches pulled flat out, by one thread or by several with a loader each."""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from netpipe.harness.clock import Clock
from netpipe.harness.processes import ProcessTree
from netpipe.harness.pull import LoaderFactory, Puller
from netpipe.harness.watch import UNWATCHED, Watch

LEAST_BATCHES: Final = 2

_WARM_UP_SHARE: Final = 0.25  # of a block, before it: what was made ahead comes in no time
_LEAST_SHARE: Final = 0.05  # of its time that a thread is taken to have run
_IO: Final = Path("/proc/self/io")
_SCHEDULING: Final = Path("/proc/thread-self/schedstat")


@dataclass(frozen=True)
class Block:
    """What pulling for a while took.

    Attributes:
        s_per_batch: Wall seconds of a batch, all pulling threads together.
        undelayed_s_per_batch: The same without the time that those threads waited for a core which
            another program had; that of a machine with nothing else to do.
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
class Pulled:
    """What one thread pulled.

    Attributes:
        batches: How many.
        wall_s: Seconds that they took.
        delay_s: Those of them that the thread waited for a core; 0 where the kernel does not tell.
    """

    batches: int
    wall_s: float
    delay_s: float

    @property
    def undelayed_s(self) -> float:
        """Seconds that they would have taken on a core of its own."""
        return max(_LEAST_SHARE * self.wall_s, self.wall_s - self.delay_s)


class Lane:
    """A thread that pulls from a loader of its own; the loader is only ever touched by it.

    Args:
        loader: Makes the loader.
        clock: Seconds.
        watch: Told of every wait for a batch.
    """

    def __init__(self, loader: LoaderFactory, clock: Clock, watch: Watch = UNWATCHED) -> None:
        self._clock = clock
        self._thread = ThreadPoolExecutor(1, "netpipe-lane")
        self._puller = self._thread.submit(lambda: Puller(loader, clock, watch)).result()

    def pulling(self, enough_s: float, least: int = LEAST_BATCHES) -> Callable[[], Pulled]:
        """Start to pull for a while; return what waits for the end.

        Args:
            enough_s: Seconds after which to stop, once there are enough batches.
            least: As many as are enough.
        """
        return self._thread.submit(self._pull, enough_s, least).result

    def _pull(self, enough_s: float, least: int) -> Pulled:
        started, delay_s, batches = self._clock(), _delay_s(), 0
        while batches < least or self._clock() - started < enough_s:
            self._puller.pull()
            batches += 1
        return Pulled(batches, self._clock() - started, _delay_s() - delay_s)

    def close(self) -> None:
        """Stop the loader, where it knows how to."""
        with suppress(Exception):  # a loader that cannot be closed ends with its process
            self._thread.submit(self._puller.close).result()
        self._thread.shutdown()


def block_of(lanes: Sequence[Lane], enough_s: float) -> Block:
    """Let lanes pull at the same time, and return what a batch took.

    Args:
        lanes: At least one.
        enough_s: Seconds that each pulls at least, behind a warm-up that does not count.
    """
    for wait in [lane.pulling(_WARM_UP_SHARE * enough_s) for lane in lanes]:
        wait()
    return _counted(lambda: [lane.pulling(enough_s) for lane in lanes])


def block_of_count(lane: Lane, count: int) -> Block:
    """Let a lane pull so many batches."""
    return _counted(lambda: [lane.pulling(0.0, least=count)])


def _counted(start: Callable[[], list[Callable[[], Pulled]]]) -> Block:
    tree = ProcessTree()
    own_s, workers_s, read = time.process_time(), tree.children_cpu_s(), _read_bytes()
    pulled = [wait() for wait in start()]
    own_s, workers_s = time.process_time() - own_s, tree.children_cpu_s() - workers_s
    read = _read_bytes() - read
    batches = sum(one.batches for one in pulled)
    return Block(
        s_per_batch=1 / sum(one.batches / one.wall_s for one in pulled),
        undelayed_s_per_batch=1 / sum(one.batches / one.undelayed_s for one in pulled),
        trainer_cpu_s_per_batch=own_s / batches,
        workers_cpu_s_per_batch=workers_s / batches,
        read_bytes_per_batch=read / batches,
    )


def fresh_block(loader: LoaderFactory, enough_s: float, clock: Clock, watch: Watch) -> Block:
    """Start a loader, whose buffers are empty then, pull a block of batches, and stop it."""
    lane = Lane(loader, clock, watch)
    try:
        return block_of([lane], enough_s)
    finally:
        lane.close()


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
