"""The results of the gate: each metric of a benchmark compared, and the message of a failure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from netpipe.gate.baseline import Baseline, find_holder
from netpipe.gate.metrics import Metric
from netpipe.gate.outcomes import UNJUDGED, Comparison, MetricComparison, Outcome
from netpipe.gate.waivers import Waiver
from netpipe.results.measurement import Measurement
from netpipe.results.units import format_percent, format_seconds
from netpipe.verdict.decision import judge

_MAX_VERSIONS: Final = 6

# Failures come before all of these; a regression among them is waived.
_WORST_FIRST: Final = (
    Outcome.INCONCLUSIVE,
    Outcome.NO_BASELINE,
    Outcome.REGRESSED,
    Outcome.IMPROVED,
    Outcome.PASS,
    Outcome.NOT_COMPARED,
)


@dataclass(frozen=True)
class GateResult:
    """One metric of a benchmark, compared with a baseline or with another version.

    Attributes:
        benchmark: The benchmark's full name.
        comparison: The comparison, before any waiver.
        now: The last session of this version.
        waiver: The waiver under which a regression does not fail.
        against: The label of the other version; "" for the baseline.
    """

    benchmark: str
    quantity: str
    comparison: Comparison
    now: Measurement
    waiver: Waiver | None = None
    against: str = ""

    @property
    def fails(self) -> bool:
        """Whether it is a regression that nobody accepted."""
        return self.comparison.outcome is Outcome.REGRESSED and self.waiver is None

    @property
    def is_missing(self) -> bool:
        """Whether a baseline to judge it by is missing, though there could be one."""
        return self.comparison.outcome in UNJUDGED and not self.comparison.is_reported_only

    @property
    def has_no_earlier(self) -> bool:
        """Whether it was judged by the latest baseline, and by none before that."""
        is_judged = self.comparison.outcome not in UNJUDGED
        return is_judged and not self.against and not self.comparison.oldest

    @property
    def outcome(self) -> str:
        """The outcome for people: with the other version, and the waiver."""
        against = f" against {self.against}" if self.against else ""
        waived = f", {self.waiver.remark}" if self.waiver else ""
        return f"{self.comparison.outcome.value}{against}{waived}"

    def is_of(self, waiver: Waiver) -> bool:
        """Return whether it compares the waiver's benchmark with a baseline of its device."""
        is_here = not self.against and waiver.is_for(self.now.device.key)
        return is_here and self.benchmark == waiver.benchmark


def find_worst(results: Sequence[GateResult]) -> GateResult:
    """Return the result that a benchmark's test reports: the worst that was judged."""
    return min(
        results,
        key=lambda result: (
            not result.fails,
            _WORST_FIRST.index(result.comparison.outcome),
            result.comparison.is_reported_only,
        ),
    )


def render_failure(failed: GateResult, baselines: Sequence[Baseline], command: str) -> str:
    """Return the message of a failed gate; its first line fits pytest's short summary.

    Args:
        failed: The result that fails.
        baselines: The baselines of its device, the latest last.
        command: The command that repeats it.
    """
    lines = [f"{failed.outcome}: {failed.comparison.reason}"]
    if failed.comparison.decisive is not None:
        lines += _figure_lines(failed, failed.comparison.decisive, baselines)
    verdict = judge(failed.now)
    lines.append(f"verdict:   {verdict.message}; next: {verdict.next}")
    holder = find_holder(failed.benchmark, baselines, failed.now.host)
    then = holder.sessions[failed.benchmark][0].versions if holder else failed.now.versions
    changed = [
        f"{name} {then.get(name, 'none')} -> {version}"
        for name, version in failed.now.versions.items()
        if then.get(name) != version
    ]
    if changed:
        lines.append(f"versions:  {', '.join(changed[:_MAX_VERSIONS])}")
    busy = format_percent(failed.now.busy_elsewhere_fraction)
    lines.append(f"machine:   other programs took {busy} of the host's CPU time")
    return "\n".join((*lines, f"again:     {command}"))


def _figure_lines(
    failed: GateResult, decisive: MetricComparison, baselines: Sequence[Baseline]
) -> Iterator[str]:
    metric, worse = decisive.metric, decisive.worse
    now, then = _format_value(metric, decisive.now), _format_value(metric, decisive.then)
    beside = failed.against or "the baseline"
    yield f"metric:    {metric.name}, {'lower' if metric.lower_is_better else 'higher'} is better"
    yield f"value:     {now}, {beside} {then} (medians over sessions)"
    yield (
        f"worse by:  {worse.median:.3f} ({worse.low:.3f} to {worse.high:.3f}) over {worse.n} "
        f"sessions; bound {decisive.bound:.3f}"
    )
    history = []
    for baseline in baselines:
        path = baseline.path
        if decisive.baseline.endswith(path.name):
            yield f"baseline:  {path}, commit {baseline.commit[:12]}, {baseline.recorded[:16]}"
        if sessions := baseline.sessions.get(failed.benchmark, ()):
            value = median(map(metric.value, sessions))
            history.append(f"{path.name[:4]} {_format_value(metric, value)}")
    if history:
        yield f"history:   {', '.join(history)}"


def _format_value(metric: Metric, value: float) -> str:
    return format_seconds(value) if metric.unit == "s" else f"{value:.3g} {metric.unit}".rstrip()


def junit_properties(comparison: Comparison) -> list[tuple[str, object]]:
    """Return the JUnit properties of a comparison, pass or fail."""
    properties: list[tuple[str, object]] = [("netpipe_outcome", comparison.outcome.value)]
    decisive = comparison.decisive
    if decisive is not None:
        properties += [
            ("netpipe_metric", decisive.metric.name),
            ("netpipe_unit", decisive.metric.unit),
            ("netpipe_value", decisive.now),
            ("netpipe_baseline", decisive.baseline),
            ("netpipe_baseline_value", decisive.then),
        ]
    if decisive is not None and not decisive.why_not:
        properties += [
            ("netpipe_worse", decisive.worse.median),
            ("netpipe_bound", decisive.bound),
            ("netpipe_sessions", decisive.worse.n),
        ]
    return properties
