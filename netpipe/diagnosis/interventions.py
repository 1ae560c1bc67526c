"""What each intervention shows, and how a prediction compares with its measurement. Pure."""

from collections.abc import Iterator
from math import inf
from typing import Final

from netpipe.diagnosis.diagnosis import Intervention, Verification, clear_factor
from netpipe.diagnosis.schedule import NO_TIME
from netpipe.diagnosis.turns import SideBlocks
from netpipe.results.measurement import Interval
from netpipe.results.units import format_seconds

# Variants of the single-thread run.
SINGLE_THREAD: Final = "single-thread"
TWO_THREADS: Final = "two-threads"
TWO_PROCESSES: Final = "two-processes"
WITHOUT_STAGE: Final = "without-stage"
FROM_DISK: Final = "from-disk"
CACHED: Final = "cached-bytes"

# Variants of the whole loader.
UNMODIFIED: Final = "unmodified"
ONE_WORKER: Final = "one-worker"
TINY_PAYLOAD: Final = "tiny-payload"
HALF_THE_CORES: Final = "half-the-cores"


def scaling_interventions(scaling: SideBlocks, stage: str) -> Iterator[Intervention]:
    """Yield what two single-thread runs, and one without its largest stage, show."""
    before_s = scaling.interval(SINGLE_THREAD) if scaling.has(SINGLE_THREAD) else None
    for name, what in {
        TWO_THREADS: "two single-thread runs as threads of one process",
        TWO_PROCESSES: "two single-thread runs, each in its own process",
        WITHOUT_STAGE: f"the single-thread run in which {stage} returns its earlier results",
    }.items():
        if name != WITHOUT_STAGE or scaling.has(name) or name in scaling.failures:
            yield _intervention(scaling, name, SINGLE_THREAD, what, before_s)


def loader_interventions(
    variants: SideBlocks, load_s: Interval, cores: int
) -> Iterator[Intervention]:
    """Yield what the loader with a tiny payload, and on half of the cores, shows."""
    for name, what in {
        TINY_PAYLOAD: "workers that make every batch and send nothing",
        HALF_THE_CORES: f"the loader on {max(1, cores // 2)} of {cores} cores",
    }.items():
        if variants.has(name) or name in variants.failures:
            yield _intervention(variants, name, UNMODIFIED, what, load_s)


def disk_intervention(disk: SideBlocks | None) -> Intervention:
    """Return what cached bytes give; None: the loader has no data file open."""
    what = "the same batches from the page cache instead of the disk"
    if disk is None:
        return _not_made(CACHED, what, "no file of data is open")
    if disk.has(CACHED) and not any(block.read_bytes_per_batch for block in disk.blocks(FROM_DISK)):
        return _not_made(CACHED, what, "nothing is read from a disk, even with a cold page cache")
    before_s = disk.interval(FROM_DISK) if disk.has(FROM_DISK) else None
    return _intervention(disk, CACHED, FROM_DISK, what, before_s)


def _intervention(
    turns: SideBlocks, name: str, before: str, what: str, before_s: Interval | None
) -> Intervention:
    if before_s is None or not (turns.has(name) and turns.has(before)):
        return _not_made(name, what, why_missing(turns, name, before))
    speedup = turns.speedup(name, before)
    after_s = divide(before_s, speedup)
    return Intervention(name, what, before_s, after_s, speedup, _describe(speedup))


def _not_made(name: str, what: str, why: str) -> Intervention:
    return Intervention(name, what, None, None, None, f"not made: {why}")


def why_missing(turns: SideBlocks, *sides: str) -> str:
    """Return why the first of some sides that failed was not measured."""
    return next((turns.failures[side] for side in sides if side in turns.failures), NO_TIME)


def divide(before_s: Interval, speedup: Interval) -> Interval:
    """Return the seconds per batch after a change that was measured in turns with no change.

    The interval is that of the speedup alone: a ratio measured in turns is better known than
    either of its times.
    """
    high_s = before_s.median / speedup.low if speedup.low else inf
    low_s = before_s.median / speedup.high
    return Interval(before_s.median / speedup.median, low_s, high_s, speedup.n)


def _describe(speedup: Interval) -> str:
    if not clear_factor(speedup):
        return "no clear difference"
    if speedup.median > 1:
        return f"{speedup.median:.2f} times as fast"
    return f"{1 / speedup.median:.2f} times slower"


def verify(
    change: str, kind: str, predicted_s: Interval, turns: SideBlocks, load_s: Interval
) -> tuple[Verification | None, str]:
    """Compare a prediction with the same change, measured in turns with the unmodified loader.

    The ratio of the two counts: if the machine has become slower since the prediction was made,
    that is no error of the prediction.

    Args:
        change: As in the `Prediction`; the changed loader's side in `turns`.
        kind: As in the `Prediction`.
        predicted_s: Seconds per batch.
        turns: The unmodified loader and the changed one.
        load_s: Seconds per batch of the unmodified loader, which the prediction started from.

    Returns:
        The comparison and "", or None and why there is none.
    """
    if not (turns.has(change) and turns.has(UNMODIFIED)):
        return None, f"{change} could not be tried: {why_missing(turns, change, UNMODIFIED)}"
    measured_s = divide(load_s, turns.speedup(change, UNMODIFIED))
    error = predicted_s.median / measured_s.median - 1
    says = (
        f"{change}: predicted {format_seconds(predicted_s.median)}, measured "
        f"{format_seconds(measured_s.median)} ({error:+.0%}) "
        f"instead of {format_seconds(load_s.median)}"
    )
    return Verification(change, kind, predicted_s, measured_s, load_s, error, says), ""
