"""Takes the windows of processes together, and judges the processes of a training run. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from statistics import median
from typing import Final

from netpipe.results.statistics import MIN_LASTING_SLOPE_RATIO, slope_interval
from netpipe.watching.window import Figures, Judged, Waits, Window, judge, sampled_fraction

# The very last window of a run may be short.
_RECENT_WINDOWS: Final = 3
_NAMED: Final = 4


def merge_recent(windows: Mapping[str, Iterable[Window]]) -> dict[str, Window]:
    """Return the last windows of each process as one, the process that waits most first."""
    return sort_by_waiting(
        {name: merge([*each][-_RECENT_WINDOWS:]) for name, each in windows.items()}
    )


def sort_by_waiting(processes: Mapping[str, Window]) -> dict[str, Window]:
    """Return processes in order, the one that waits most first."""
    keys = {name: (each.verdict.severity, each.idle) for name, each in processes.items()}
    return {name: processes[name] for name in sorted(keys, key=keys.__getitem__, reverse=True)}


def merge_worse(windows: Sequence[Window]) -> Window:
    """Return a run as one window, or its end if training waits there and not in the whole."""
    parts = merge(windows), merge(windows[-_RECENT_WINDOWS:])
    return max(parts, key=lambda each: each.verdict.severity)


def judge_together(processes: Mapping[str, Window]) -> Judged:
    """Return why sorted processes of a training run wait, and name the one they all wait for.

    A process that waits for another one in a collective does so in its step, so its device is not
    idle while its loop waits for a batch.
    """
    (worst, window), *others = processes.items()
    verdict, least = window.verdict, window.idle[1]
    # Processes whose intervals overlap cannot be ranked.
    waiting = {name: each for name, each in processes.items() if each.verdict.severity == 2}
    tied = [name for name, each in waiting.items() if each.idle[2] >= least]
    if not others:
        return verdict
    names = ", ".join(f"{processes[name].host} ({name})" for name in (tied or [worst])[:_NAMED])
    names += f" and {len(tied) - _NAMED} more" * (len(tied) > _NAMED)
    if len(tied) == len(processes):
        advice = "the cause may be shared, such as the storage; netpipe diagnose finds it"
        message = f"all processes wait for their data: {names}: {verdict.message}"
        return replace(verdict, message=message, next=advice)
    verb = f" make{'s' * (len(tied) == 1)} the others wait" if tied else ""
    return replace(verdict, message=f"{names}{verb}: {verdict.message}")


def merge(windows: Sequence[Window]) -> Window:
    """Return one or more windows of a process, oldest first, as one.

    The percentiles of waits are medians over the windows, apart from the longest wait.
    """
    parts, before = [each.figures for each in windows], windows[0].batches_before
    waits = [each.wait_s for each in parts if each.wait_s]
    steps_s = [each.step_s for each in parts if each.step_s is not None]
    sampled = [each.exposed_fraction for each in parts if each.exposed_fraction]
    synced = ((each.synced_fraction, each.batches) for each in parts)
    known = [(fraction, batches) for fraction, batches in synced if fraction is not None]
    figures = Figures(
        seconds=sum(each.seconds for each in parts),
        batches=sum(each.batches for each in parts),
        waiting_fraction=_mean((each.waiting_fraction, each.seconds) for each in parts),
        wait_s=_merge_waits(waits) if waits else None,
        step_s=median(steps_s) if steps_s else None,
        exposed_fraction=sampled_fraction(
            sum(round(each.median * each.n) for each in sampled), sum(each.n for each in sampled)
        ),
        synced_fraction=_mean(known) if known else None,
        worst_tenth_fraction=_mean((each.worst_tenth_fraction, _waited_s(each)) for each in parts),
        own_work_fraction=_mean((each.own_work_fraction, _waited_s(each)) for each in parts),
        compilations=sum(each.compilations for each in parts),
    )
    verdict = judge(figures, before)
    return replace(windows[-1], batches_before=before, figures=figures, verdict=verdict)


def find_memory_growth(windows: Sequence[Window]) -> float:
    """Return the growth of the latest process's memory in bytes an hour; 0.0 unless it goes on.

    Growth goes on if it is certain in both halves of the time, and not much slower in the second.
    """
    same = (each for each in windows if each.pid == windows[-1].pid)
    own = sorted(same, key=lambda each: each.ended_s)
    half = len(own) // 2
    before, after = (
        slope_interval([w.ended_s / 3600 for w in part], [w.memory_bytes for w in part])
        for part in (own[:half], own[half:])
    )
    is_ending = after.median < MIN_LASTING_SLOPE_RATIO * before.median
    return 0.0 if is_ending or min(before.low, after.low) <= 0 else after.median


def _merge_waits(waits: Sequence[Waits]) -> Waits:
    p50, p99 = median(each.p50 for each in waits), median(each.p99 for each in waits)
    return Waits(p50, p99, max(each.longest for each in waits))


def _waited_s(figures: Figures) -> float:
    return figures.waiting_fraction * figures.seconds


def _mean(weighted: Iterable[tuple[float, float]]) -> float:
    """Return the mean of values with weights; 0 without any weight."""
    pairs = list(weighted)
    weight = sum(each for _, each in pairs)
    return min(1.0, sum(value * each for value, each in pairs) / weight) if weight else 0.0
