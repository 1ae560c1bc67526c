"""What each intervention says: pure, over turns."""

from collections.abc import Iterable, Iterator
from typing import Final

from netpipe.diagnosis.diagnosis import Intervention, clear_factor
from netpipe.diagnosis.page_cache import CACHED, FROM_DISK
from netpipe.diagnosis.schedule import NO_TIME
from netpipe.diagnosis.thread_scaling import LANE, TWO_PROCESSES, TWO_THREADS, WITHOUT_STAGE
from netpipe.diagnosis.turns import SideBlocks
from netpipe.results.measurement import Interval

AS_IT_IS: Final = "as-it-is"
TINY_PAYLOAD: Final = "tiny-payload"
HALF_THE_CORES: Final = "half-the-cores"
ONE_WORKER: Final = "one-worker"


def of_lanes(lanes: SideBlocks, stage: str) -> Iterator[Intervention]:
    """Yield what lanes beside each other, and one without its largest stage, say."""
    yield _told(lanes, TWO_THREADS, LANE, "two lanes as threads of one process")
    yield _told(lanes, TWO_PROCESSES, LANE, "two lanes, each in a process of its own")
    if lanes.has(WITHOUT_STAGE) or WITHOUT_STAGE in lanes.failures:
        what = f"a lane in which {stage} gives back what it gave before"
        yield _told(lanes, WITHOUT_STAGE, LANE, what)


def of_the_whole(whole: SideBlocks, cores: int) -> Iterator[Intervention]:
    """Yield what the loader with a payload of nothing, and on half of the cores, says."""
    if whole.has(TINY_PAYLOAD) or TINY_PAYLOAD in whole.failures:
        yield _told(whole, TINY_PAYLOAD, AS_IT_IS, "workers that make every batch and send nothing")
    if whole.has(HALF_THE_CORES) or HALF_THE_CORES in whole.failures:
        what = f"the loader on {max(1, cores // 2)} of {cores} cores"
        yield _told(whole, HALF_THE_CORES, AS_IT_IS, what)


def of_the_disk(disk: SideBlocks | None) -> Intervention:
    """Say what bytes that are cached give."""
    what = "the same batches from the page cache instead of the disk"
    if disk is None:
        return Intervention(CACHED, what, None, None, None, "not made: no file of data is open")
    if disk.has(CACHED) and not sum(one.read_bytes_per_batch for one in disk.blocks(FROM_DISK)):
        says = "not made: nothing comes from a disk, even after the page cache was given up"
        return Intervention(CACHED, what, None, None, None, says)
    return _told(disk, CACHED, FROM_DISK, what)


def _told(turns: SideBlocks, side: str, before: str, what: str) -> Intervention:
    if not (turns.has(side) and turns.has(before)):
        why = turns.failures.get(side) or turns.failures.get(before) or NO_TIME
        return Intervention(side, what, None, None, None, f"not made: {why}")
    speedup = turns.speedup(side, before)
    return Intervention(
        side,
        what,
        turns.interval(before),
        turns.paired_interval(side, before),
        speedup,
        _says(speedup),
    )


def _says(speedup: Interval) -> str:
    if not clear_factor(speedup):
        return "no clear difference"
    if speedup.median > 1:
        return f"{speedup.median:.2f} times as fast"
    return f"{1 / speedup.median:.2f} times slower"


def clearest_first(made: Iterable[Intervention]) -> tuple[Intervention, ...]:
    """Return interventions in the order of how clear their effect is; those without one last."""
    return tuple(sorted(made, key=lambda one: (-one.clear_factor, one.speedup is None)))
