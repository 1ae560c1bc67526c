"""Results of the gate, one for each compared metric of a benchmark, and failure messages."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from netpipe.gate.baseline import Baseline, find_holder
from netpipe.gate.metrics import GATED, METRICS, Metric
from netpipe.gate.outcomes import UNJUDGED, WORST_FIRST, Comparison, Outcome
from netpipe.gate.waivers import Waiver
from netpipe.results.measurement import Interval, Measurement
from netpipe.results.units import format_metric, format_percent
from netpipe.results.work_profile import KINDS
from netpipe.verdict.decision import judge

WORK: Final = "work"
"""The name of the quantity in a test that counts work."""


def gated_names(quantity: str) -> tuple[str, ...]:
    """Return the names of the metrics, or of the kinds of work, that decide on a quantity."""
    return tuple(KINDS) if quantity == WORK else tuple(metric.name for metric in GATED[quantity])


@dataclass(frozen=True)
class GateResult:
    """One metric of a benchmark, compared with a baseline or with another version.

    Attributes:
        now: The last session of this version; None for counts of work, which have no device.
        against: The label of the other version; "" for the baseline.
    """

    benchmark: str
    quantity: str
    comparison: Comparison
    now: Measurement | None
    waiver: Waiver | None = None
    against: str = ""

    @property
    def device(self) -> str:
        """The key of the device that was measured; "" for a count of work."""
        return self.now.device.key if self.now else ""

    @property
    def fails(self) -> bool:
        """Whether the result is a regression without a waiver."""
        return self.comparison.outcome is Outcome.REGRESSED and self.waiver is None

    @property
    def is_missing(self) -> bool:
        """Whether the metric was not judged but would be with a comparable baseline."""
        return self.comparison.outcome in UNJUDGED and not self.comparison.is_reported_only

    @property
    def passes_by_wider_bound(self) -> bool:
        """Whether a change passes only because of the machine or its load."""
        return self._over(lambda each: each.bound_change(shared_cores=False, same_machine=True)) > 1

    @property
    def worse_than_decidable(self) -> float:
        """A change that passes, divided by the smallest one that is decided side by side."""
        return self._over(lambda each: each.duet_bound_change)

    def _over(self, find_bound: Callable[[Metric], float]) -> float:
        """Return a change that passes, divided by a bound; 0 if there is no such change."""
        metric, worse = METRICS.get(self.comparison.metric), self.comparison.worse
        if metric is None or worse is None or self.comparison.outcome is not Outcome.PASS:
            return 0.0
        return worse.median / metric.to_factor(find_bound(metric))

    @property
    def outcome(self) -> str:
        """The outcome as text, with the other version and the waiver."""
        against = f" against {self.against}" if self.against else ""
        waived = f", {self.waiver.remark}" if self.waiver else ""
        return f"{self.comparison.outcome.value}{against}{waived}"


def find_worst(results: Sequence[GateResult]) -> GateResult:
    """Return the worst result, which is the one that a benchmark's test reports."""
    return min(
        results,
        key=lambda result: (
            not result.fails,
            result.comparison.outcome is not Outcome.INCONCLUSIVE,
            WORST_FIRST.index(result.comparison.outcome),
            result.comparison.is_reported_only,
        ),
    )


def note_hidden_changes(
    results: Sequence[GateResult], baselines: Sequence[Baseline], repeat: Callable[[str], str]
) -> Iterator[str]:
    """Yield a note on the largest change that passes and would be decided side by side.

    `repeat` returns the command that times a benchmark side by side with a commit.
    """
    nameless = ("unversioned", "unknown")  # what pytest-benchmark calls a commit outside git
    usable = (each for each in baselines if not each.dirty and each.commit not in nameless)
    commits = {each.name: each.commit[:12] for each in usable}
    hidden = [
        result
        for result in results
        if result.worse_than_decidable > 1 and result.comparison.baseline in commits
    ]
    if hidden:
        found = max(hidden, key=lambda result: result.worse_than_decidable).comparison
        metric, commit = METRICS[found.metric], commits[found.baseline]
        bound = metric.to_factor(metric.duet_bound_change)
        yield f"{found.reason}; side by side, the bound is {bound:.2f}: {repeat(commit)}"


def render_failure(
    results: Sequence[GateResult], baselines: Sequence[Baseline], command: str
) -> str:
    """Return the message of a failed gate; its first line fits pytest's short summary.

    `baselines` are all baselines of the device, latest last; `command` reruns the benchmark.
    """
    failed = find_worst(results)
    lines = [f"{failed.outcome}: {failed.comparison.reason}"]
    if failed.now is None:
        # Each kind of work that increased, with the causes
        risen = (result for result in results if result.fails)
        lines = [f"{result.outcome}: {result.comparison.reason}" for result in risen]
        lines = [line.replace("; ", "\n  ") for line in lines]
    else:
        lines += _figure_lines(failed, failed.now, baselines)
    return "\n".join((*lines, f"again:     {command}"))


def _figure_lines(
    failed: GateResult, now: Measurement, baselines: Sequence[Baseline]
) -> Iterator[str]:
    if failed.comparison.worse is not None:
        yield from _metric_lines(failed, failed.comparison.worse, baselines)
    verdict = judge(now)
    yield f"verdict:   {verdict.message}; next: {verdict.next}"
    holder = find_holder(failed.benchmark, baselines, now.host)
    then = holder.sessions[failed.benchmark][0].versions if holder else now.versions
    changed = [
        f"{name} {then.get(name, 'none')} -> {version}"
        for name, version in now.versions.items()
        if then.get(name) != version
    ]
    if changed:
        yield f"versions:  {', '.join(changed)}"
    busy = f"{format_percent(now.busy_elsewhere_fraction)} of the host's CPU time"
    if rounds := now.rounds.busy_elsewhere_fraction:
        busy += f", {format_percent(median(rounds))} while the loader ran alone"
    yield f"machine:   other programs took {busy}"


def _metric_lines(
    failed: GateResult, worse: Interval, baselines: Sequence[Baseline]
) -> Iterator[str]:
    comparison, metric = failed.comparison, METRICS[failed.comparison.metric]
    assert comparison.then is not None
    now, then = (format_metric(metric.name, each) for each in (comparison.now, comparison.then))
    beside, unit = (failed.against, "duets") if failed.against else ("the baseline", "sessions")
    yield f"metric:    {metric.name}, {'lower' if metric.lower_is_better else 'higher'} is better"
    yield f"value:     {now}, {beside} {then} (medians over {unit})"
    yield (
        f"worse by:  {worse.median:.3f} ({worse.low:.3f} to {worse.high:.3f}) over {worse.n} "
        f"{unit}; bound {comparison.bound:.3f}"
    )
    history = []
    for baseline in baselines:
        path = baseline.path
        if comparison.baseline.endswith(path.name):
            yield f"baseline:  {path}, commit {baseline.commit[:12]}, {baseline.recorded[:16]}"
        if sessions := list(filter(metric.is_in, baseline.sessions.get(failed.benchmark, ()))):
            value = median(map(metric.value, sessions))
            history.append(f"{path.name.partition('_')[0]} {format_metric(metric.name, value)}")
    if history:
        yield f"history:   {', '.join(history)}"


def junit_properties(comparison: Comparison) -> Iterator[tuple[str, object]]:
    """Yield the JUnit properties of a comparison, whether it passed or failed."""
    yield "netpipe_outcome", comparison.outcome.value
    if comparison.metric:
        yield "netpipe_metric", comparison.metric
        metric = METRICS.get(comparison.metric) or KINDS[comparison.metric]
        yield "netpipe_unit", metric.unit
        yield "netpipe_value", comparison.now
        yield "netpipe_baseline", comparison.baseline
        yield "netpipe_baseline_value", comparison.then
    if comparison.worse is not None and comparison.outcome not in UNJUDGED:
        yield "netpipe_worse", comparison.worse.median
        yield "netpipe_bound", comparison.bound
        yield "netpipe_sessions", comparison.worse.n
