"""A window of a watched run: its figures, and what can be said of them without stopping the run.

A passive look knows neither the step time alone nor the load time alone, so it tells fewer kinds of
verdicts than `netpipe measure`.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from math import sqrt
from typing import Final

from netpipe.results.fields import Amount, Count, Document, Fraction, Interval, PositiveCount, Text
from netpipe.results.measurement import Share
from netpipe.results.units import format_percent, format_seconds
from netpipe.verdict.kinds import HEALTHY_KINDS, VerdictKind
from netpipe.verdict.quantities import EPSILON

SCHEMA: Final = "netpipe.training/1"
_CAUSE: Final = "netpipe diagnose finds the cause"
# A loop that finds this share of its steps done reads each result before it asks for a batch.
_MIN_SYNCED: Final = 0.5
_MIN_WORST_TENTH: Final = 0.5
# Pauses that take longer than the steps slow training down, however deep the buffers are.
_MAX_HIDDEN: Final = 0.5
# With fewer batches, one of them is more than a tenth.
_MIN_FOR_JITTER: Final = 20
# A loader that computes for this share of a wait loads in the loop's own thread. Beside other
# programs, the thread gets only a part of a core; waiting for workers takes next to nothing.
_MIN_OWN_WORK: Final = 0.25
_Z: Final = 1.96
_SILENT_WINDOWS: Final = 3


@dataclass(frozen=True)
class Waits:
    """The time from a request to its batch, in seconds."""

    p50: Amount
    p99: Amount
    longest: Amount


@dataclass(frozen=True)
class Judged:
    """A verdict on a window, in the words of `netpipe measure`."""

    kind: VerdictKind
    message: Text
    next: Text  #: The advice, or the command that tells more.

    @property
    def severity(self) -> int:
        """0 if the device is fed, 1 if that is not known, and 2 if it certainly waits for data."""
        return 1 if self.kind == VerdictKind.INCONCLUSIVE else 2 * (self.kind not in HEALTHY_KINDS)


@dataclass(frozen=True)
class Figures:
    """The counts and times of a window.

    Attributes:
        step_s: Median time from one batch to the next; null for fewer than two batches.
        exposed_fraction: Fraction of the time in which the device was idle while the loop waited,
            from random samples. Null if `on_step_end` was not called with an array of JAX.
        synced_fraction: Fraction of the requests that found the latest step done. Null as above.
        worst_tenth_fraction: Share of the waiting in the worst tenth of the waits.
        own_work_fraction: Share of the waiting in which the loop's thread computed.
        compilations: Compilations by JAX in this process.
    """

    seconds: Amount
    batches: Count
    waiting_fraction: Fraction
    wait_s: Waits | None
    step_s: Amount | None
    exposed_fraction: Share | None
    synced_fraction: Fraction | None
    worst_tenth_fraction: Fraction
    own_work_fraction: Fraction
    compilations: Count


@dataclass(frozen=True)
class Window(Document):
    """A line of the log of a watched run.

    Attributes:
        ended: When the window ended, in UTC.
        batches_before: Batches that the run had taken before.
        epoch: Number of times that the loader was begun.
        examples_per_s: By the latest batch, like tokens_per_s. Null: the batch cannot be counted.
        tokens_per_s: Null if the batch cannot be counted, or has no segmentation or mask.
        mfu: Null unless `flops_per_step` is given, and the peak of the step's devices is known.
        memory_bytes: Memory of all processes, with shared pages counted once.
        workers: Worker processes that are alive.
    """

    SCHEMA = SCHEMA

    ended: Text
    host: str
    pid: PositiveCount
    batches_before: Count
    epoch: Count
    figures: Figures
    verdict: Judged
    examples_per_s: Amount | None
    tokens_per_s: Amount | None
    mfu: Amount | None
    memory_bytes: Count
    workers: Count

    def __post_init__(self) -> None:
        """Refuse a moment that is not one."""
        datetime.fromisoformat(self.ended)

    @property
    def ended_s(self) -> float:
        """When the window ended, in seconds since 1970."""
        return datetime.fromisoformat(self.ended).replace(tzinfo=UTC).timestamp()

    @property
    def idle(self) -> tuple[float, float, float]:
        """The exposed fraction and its ends; if it is not known, the waiting fraction."""
        exposed, waiting = self.figures.exposed_fraction, self.figures.waiting_fraction
        return (exposed.median, exposed.low, exposed.high) if exposed else (waiting,) * 3

    def is_silent(self, now_s: float) -> bool:
        """Return whether this process has written no line for some windows."""
        return now_s - self.ended_s > _SILENT_WINDOWS * max(1.0, self.figures.seconds)


def judge(figures: Figures, batches_before: int = 1) -> Judged:
    """Return why training waits for data, or that it does not, as far as the window shows it."""
    waiting, exposed = format_percent(figures.waiting_fraction), figures.exposed_fraction
    if not figures.batches:
        seconds = format_seconds(figures.seconds)
        message = f"no batch came within {seconds}, of which {waiting} were spent waiting"
        kind = VerdictKind.INCONCLUSIVE
        # A loader may take minutes to start.
        if batches_before and figures.waiting_fraction > EPSILON:
            kind = VerdictKind.LOADER_BOUND
        return Judged(kind, message, _CAUSE)
    if figures.waiting_fraction <= EPSILON:
        message = f"the loop waits for batches {waiting} of the time"
        return Judged(VerdictKind.HEALTHY, message, "nothing")
    if exposed is None:
        message = f"the loop waits for batches {waiting} of the time; the device may work meanwhile"
        way_out = "call on_step_end with an array of each step, or run netpipe measure"
        return Judged(VerdictKind.INCONCLUSIVE, message, way_out)
    ends = f"{format_percent(exposed.low)} to {format_percent(exposed.high)}"
    idle = f"the device is idle while the loop waits for {format_percent(exposed.median)} ({ends})"
    if exposed.high <= EPSILON:
        return Judged(VerdictKind.HEALTHY, f"{idle} of the time", "nothing")
    if exposed.low <= EPSILON:
        return Judged(VerdictKind.INCONCLUSIVE, f"{idle} of the time", "run netpipe measure")
    is_uneven = figures.worst_tenth_fraction >= _MIN_WORST_TENTH and exposed.median < _MAX_HIDDEN
    if is_uneven and figures.batches >= _MIN_FOR_JITTER:
        share = format_percent(figures.worst_tenth_fraction)
        message = f"{idle} of the time, {share} of it in the worst tenth of the waits"
        return Judged(VerdictKind.JITTER, message, "prefetch more batches, or find what pauses")
    if (figures.synced_fraction or 0.0) < _MIN_SYNCED:
        return Judged(VerdictKind.LOADER_BOUND, f"{idle} of the time", _CAUSE)
    if _fits_beside_step(figures):
        message = f"{idle} of the time, because each result is read before the next request"
        return Judged(VerdictKind.FORCED_SYNC, message, "read metrics a step late")
    message = f"{idle} of the time; most steps are done before the next request"
    advice = f"if the loop reads each result, read it a step late; if it still waits, {_CAUSE}"
    return Judged(VerdictKind.LOADER_BOUND, message, advice)


def _fits_beside_step(figures: Figures) -> bool:
    """Return whether the loop's own thread loads, and in at most the time of a step."""
    if not (figures.wait_s and figures.step_s):
        return False
    fits = 2 * figures.wait_s.p50 <= figures.step_s
    return fits and figures.own_work_fraction >= _MIN_OWN_WORK


def sampled_fraction(hits: int, samples: int) -> Interval | None:
    """Return the fraction of hits with its 95% interval; None without samples.

    The interval is Wilson's (J. Am. Stat. Assoc. 22, 1927, p. 209).
    """
    if not samples:
        return None
    share, square = hits / samples, _Z**2 / samples
    centre, scale = (share + square / 2) / (1 + square), _Z / (1 + square)
    half = scale * sqrt(share * (1 - share) / samples + square / (4 * samples))
    # Rounding could leave the share just outside.
    low, high = min(share, centre - half), max(share, centre + half)
    return Interval(share, max(0.0, low), min(1.0, high), samples)
