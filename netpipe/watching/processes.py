"""Judges the processes of a training together, from the windows of each. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Final

from netpipe.verdict.kinds import HEALTHY_KINDS, VerdictKind
from netpipe.watching.window import Figures, Judged, Waits, Window, judge, sampled_fraction

# The very last window of a run may be short.
_RECENT_WINDOWS: Final = 3
# A process without a line for longer than this, in windows, has ended or pauses.
_SILENT_WINDOWS: Final = 3


@dataclass(frozen=True)
class Process:
    """Some windows of a process, taken as one."""

    name: str
    latest: Window
    figures: Figures
    judged: Judged

    @property
    def is_open(self) -> bool:
        """Whether it is not known if training waits for this process's data."""
        return self.judged.kind == VerdictKind.INCONCLUSIVE

    @property
    def waits(self) -> bool:
        """Whether training certainly waits for this process's data."""
        return not self.is_open and self.judged.kind not in HEALTHY_KINDS

    def is_silent(self, now_s: float) -> bool:
        """Return whether the process has written no line for some windows."""
        return now_s - self.latest.ended_s > _SILENT_WINDOWS * max(1.0, self.latest.figures.seconds)

    @property
    def label(self) -> str:
        """The host, and the process's file."""
        return f"{self.latest.host} ({self.name})"

    @property
    def idle(self) -> tuple[float, float, float]:
        """The exposed fraction and its ends; if it is not known, the waiting fraction."""
        exposed, waiting = self.figures.exposed_fraction, self.figures.waiting_fraction
        return (exposed.median, exposed.low, exposed.high) if exposed else (waiting,) * 3


def summarize(name: str, windows: Sequence[Window]) -> Process:
    """Return one or more windows of a process as one."""
    figures = pool([each.figures for each in windows])
    return Process(name, windows[-1], figures, judge(figures, windows[0].batches_before))


def summarize_recent(windows: Mapping[str, Iterable[Window]]) -> list[Process]:
    """Return the last windows of each process as one, the process that waits most first."""
    found = [summarize(name, [*each][-_RECENT_WINDOWS:]) for name, each in windows.items()]
    return sorted(found, key=lambda each: (not each.waits, -each.idle[0]))


def judge_together(processes: Sequence[Process]) -> Judged:
    """Return why the processes of a training wait, and name the one that the others wait for.

    A process that waits for another one in a collective does so in its step, so its device is not
    idle while its loop waits for a batch.
    """
    worst = max(processes, key=lambda each: (each.waits, each.is_open, each.idle))
    # Processes whose intervals overlap cannot be ranked.
    tied = [each.label for each in processes if each.waits and each.idle[2] >= worst.idle[1]]
    if len(processes) == 1:
        return worst.judged
    if len(tied) == len(processes):
        who = f"all {len(tied)} processes wait for their data; {worst.label}"
        advice = "the cause may be shared, as the storage is; netpipe diagnose finds it"
        return replace(worst.judged, message=f"{who}: {worst.judged.message}", next=advice)
    verb = f" make{'s' * (len(tied) == 1)} the others wait" if tied else ""
    names = ", ".join(tied) or worst.label
    return replace(worst.judged, message=f"{names}{verb}: {worst.judged.message}")


def pool(parts: Sequence[Figures]) -> Figures:
    """Return the figures of one or more windows as if they were one.

    The percentiles of waits are medians over the windows, apart from the longest wait.
    """
    seconds = sum(each.seconds for each in parts)
    waits = [each.wait_s for each in parts if each.wait_s]
    steps_s = [each.step_s for each in parts if each.step_s is not None]
    sampled = [each.exposed_fraction for each in parts if each.exposed_fraction]
    synced = ((each.synced_fraction, each.batches) for each in parts)
    known = [(fraction, batches) for fraction, batches in synced if fraction is not None]
    return Figures(
        seconds=seconds,
        batches=sum(each.batches for each in parts),
        waiting_fraction=_mean((each.waiting_fraction, each.seconds) for each in parts),
        wait_s=_pool_waits(waits) if waits else None,
        step_s=median(steps_s) if steps_s else None,
        exposed_fraction=sampled_fraction(
            sum(round(each.median * each.n) for each in sampled), sum(each.n for each in sampled)
        ),
        synced_fraction=_mean(known) if known else None,
        worst_tenth_fraction=_mean((each.worst_tenth_fraction, _waited_s(each)) for each in parts),
        own_work_fraction=_mean((each.own_work_fraction, _waited_s(each)) for each in parts),
        compilations=sum(each.compilations for each in parts),
    )


def _pool_waits(waits: Sequence[Waits]) -> Waits:
    p50, p99 = median(each.p50 for each in waits), median(each.p99 for each in waits)
    return Waits(p50, p99, max(each.longest for each in waits))


def _waited_s(figures: Figures) -> float:
    return figures.waiting_fraction * figures.seconds


def _mean(weighted: Iterable[tuple[float, float]]) -> float:
    """Return the mean of values with weights; 0 without any weight."""
    pairs = list(weighted)
    weight = sum(each for _, each in pairs)
    return min(1.0, sum(value * each for value, each in pairs) / weight) if weight else 0.0
