"""What a benchmark that is worse than its baseline says: the figures first, then why, then how."""

from collections.abc import Iterator, Sequence
from statistics import median

from netpipe.gate.baseline import Baseline, find_holder
from netpipe.gate.comparison import Comparison, MetricComparison
from netpipe.gate.metrics import Metric
from netpipe.results.measurement import Measurement
from netpipe.results.units import format_percent, format_seconds
from netpipe.suite import run
from netpipe.verdict.decision import judge

_SHOWN_VERSIONS = 6


def told(failed: run.GateResult, baselines: Sequence[Baseline], command: str) -> str:
    """Return the message of a failed gate; its first line fits pytest's short summary.

    Args:
        failed: What failed.
        baselines: Those of the device, the latest last.
        command: What repeats it.
    """
    comparison = failed.comparison
    lines = [f"{failed.outcome}: {comparison.reason}"]
    decisive = comparison.decisive
    if decisive is not None:
        lines += _figures(decisive, failed.against or "the baseline")
        lines += _baseline(decisive, baselines)
        lines += _history(decisive.metric, failed.benchmark, baselines)
    held = find_holder(failed.benchmark, baselines, failed.now.host)
    lines += _cause(failed.now, held.sessions[failed.benchmark] if held else ())
    return "\n".join((*lines, f"again:     {command}"))


def _figures(one: MetricComparison, beside: str) -> Iterator[str]:
    now, then = (_written(one.metric, value) for value in (one.now, one.then))
    worse = one.worse
    better = "lower" if one.metric.lower_is_better else "higher"
    yield f"metric:    {one.metric.name}, {better} is better"
    yield f"value:     {now}, {beside} {then} (medians over sessions)"
    yield (
        f"worse by:  {worse.median:.3f} ({worse.low:.3f} to {worse.high:.3f}) over {worse.n} "
        f"sessions; bound {one.bound:.3f}"
    )


def _written(metric: Metric, value: float) -> str:
    return format_seconds(value) if metric.unit == "s" else f"{value:.3g} {metric.unit}".rstrip()


def _baseline(one: MetricComparison, baselines: Sequence[Baseline]) -> Iterator[str]:
    for held in baselines:
        if one.where.endswith(held.path.name):
            yield f"baseline:  {held.path}, commit {held.commit[:12]}, {held.recorded[:16]}"


def _history(metric: Metric, benchmark: str, baselines: Sequence[Baseline]) -> Iterator[str]:
    values = [
        f"{held.path.name[:4]} {_written(metric, median(map(metric.value, sessions)))}"
        for held in baselines
        if (sessions := held.sessions.get(benchmark, ()))
    ]
    if values:
        yield f"history:   {', '.join(values)}"


def _cause(now: Measurement, then: Sequence[Measurement]) -> Iterator[str]:
    verdict = judge(now)
    yield f"verdict:   {verdict.message}; next: {verdict.next}"
    if then:
        changed = [
            f"{name} {then[0].versions.get(name, 'none')} -> {version}"
            for name, version in now.versions.items()
            if then[0].versions.get(name) != version
        ]
        if changed:
            yield f"versions:  {', '.join(changed[:_SHOWN_VERSIONS])}"
    busy = format_percent(now.busy_elsewhere_fraction)
    yield f"machine:   other programs took {busy} of the host's CPU time"


def properties(comparison: Comparison) -> list[tuple[str, object]]:
    """Return what JUnit is told of a comparison, pass or fail."""
    found: list[tuple[str, object]] = [("netpipe_outcome", comparison.outcome.value)]
    one = comparison.decisive
    if one is None:
        return found
    found += [
        ("netpipe_metric", one.metric.name),
        ("netpipe_unit", one.metric.unit),
        ("netpipe_value", one.now),
        ("netpipe_baseline", one.where),
        ("netpipe_baseline_value", one.then),
    ]
    if one.why_not:
        return found
    return [
        *found,
        ("netpipe_worse", one.worse.median),
        ("netpipe_bound", one.bound),
        ("netpipe_sessions", one.worse.n),
    ]
