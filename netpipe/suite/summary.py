"""The summary that the terminal shows at the end of a run."""

from collections.abc import Iterator, Sequence
from io import StringIO
from typing import Final

from rich.console import Console
from rich.table import Table

from netpipe.gate.metrics import GATED
from netpipe.gate.outcomes import NO_WORSE, Outcome
from netpipe.gate.waivers import Waiver
from netpipe.linting.rules import UNUSED_SILENCE
from netpipe.results.measurement import Measurement
from netpipe.suite.acceptance import acceptance_lines, change_tables, difference_lines
from netpipe.suite.gate_results import GateResult
from netpipe.suite.run import Run
from netpipe.verdict.decision import find_remarks, judge
from netpipe.verdict.kinds import VerdictKind
from netpipe.verdict.report import device_label, new_table, trace_line, verdict_table

_WIDTH: Final = 118
_NOTHING_COMPARED: Final = (
    "nothing was compared, which fails the run: no benchmark got so far. Mend those that failed; "
    "leave out what skips or deselects them (-k, -m, --lf, --benchmark-skip, --collect-only; in "
    "addopts too), or --benchmark-compare"
)
_NOTHING_JUDGED: Final = (
    "no metric was judged, which fails a run with --netpipe-against or --netpipe-missing fail"
)


def summary_lines(run: Run) -> Iterator[str]:
    """Yield the lines of the summary."""
    yield from order_lines(run)
    if run.sessions:
        yield from _render(verdict_table(last_sessions(run)))
        yield from verdict_lines(run)
    elif not run.lints:
        yield "nothing was measured: no test asked for it, or all that did were skipped"
    if run.compares or run.options.against:
        for table in (*comparison_tables(run), *change_tables(run.acceptance)):
            yield from _render(table)
        yield from comparison_lines(run)
    elif run.sessions and not run.options.record:
        yield "compared with no baseline: --benchmark-compare does that"
    yield from run.notes


def _render(table: Table) -> Iterator[str]:
    stream = StringIO()
    # A test's name may look like markup: test_load[emulated:h100].
    Console(file=stream, width=_WIDTH, markup=False, emoji=False).print(table)
    yield from (line.rstrip() for line in stream.getvalue().rstrip().splitlines())


def last_sessions(run: Run) -> list[Measurement]:
    """Return the last session of every subject that was measured."""
    return [sessions[-1] for sessions in run.sessions.values()]


def verdict_lines(run: Run) -> Iterator[str]:
    """Yield the verdict and the remarks of each measurement."""
    for session in last_sessions(run):
        verdict, label = judge(session), device_label(session.device)
        if verdict.kind is not VerdictKind.HEALTHY:
            yield f"{label}: {verdict.message}"
            yield f"  next: {verdict.next}"
        for remark in find_remarks(session, verdict):
            yield f"{label}: {remark.name}: {remark.message}"
        if session.trace:
            yield f"{label}: {trace_line(session)}"


def order_lines(run: Run) -> Iterator[str]:
    """Yield the findings on the order of every loader."""
    findings = [finding for lint in run.lints.values() for finding in lint["findings"]]
    for lint in run.lints.values():
        for one in lint["findings"]:
            # A silence belongs to the project: it is unused if none of its pipelines needs it.
            if one["rule"] != UNUSED_SILENCE or findings.count(one) == len(run.lints):
                yield f"order: {one['severity']}: {one['rule']}: {one['message']}"
        for one in lint["silenced"]:
            yield f"order: silenced: {one['rule']}: {one['reason']}"
        if not lint["findings"]:
            yield f"order: no findings (intent: {lint['intent']})"


def comparison_tables(run: Run) -> Iterator[Table]:
    """Yield a table of the comparisons with pairs, and one of those with the baseline."""
    for against in dict.fromkeys(result.against for result in run.results):
        results = [result for result in run.results if result.against == against]
        yield _comparison_table(results, against)


def _comparison_table(results: Sequence[GateResult], against: str) -> Table:
    table = new_table(f"against {against or 'the baseline'}")
    for heading in ("benchmark", "metric", f"now / {against or 'baseline'}", "outcome"):
        table.add_column(heading)
    for result in results:
        comparison = result.comparison
        is_drift = comparison.decisive is not None and comparison.decisive.is_drift
        metric = comparison.metric or result.quantity
        why_not = comparison.why_not
        table.add_row(
            result.benchmark.rpartition("::")[2],
            f"{metric} since the oldest" if is_drift else metric,
            "" if comparison.worse_ratio is None else f"{comparison.worse_ratio:.2f} x",
            f"{result.outcome}: {why_not}" if why_not else result.outcome,
        )
    return table


def comparison_lines(run: Run) -> Iterator[str]:
    """Yield why a comparison did not PASS, which benchmarks were lost, and what changed."""
    if run.compares_nothing:
        yield _NOTHING_JUDGED if run.results else _NOTHING_COMPARED
    yield from dict.fromkeys(
        f"{result.outcome}{';' if result.waiver else ':'} {result.comparison.reason}"
        for result in run.results
        if result.comparison.outcome is not Outcome.PASS
    )
    if any(result.is_missing and not result.against for result in run.results):
        yield "to record a baseline, run the same command with --netpipe-record NAME"
    alone = [result.comparison.metric for result in run.results if result.has_no_earlier]
    if alone:
        metrics = ", ".join(dict.fromkeys(alone))
        yield f"small steps were not added up: no earlier baseline to compare {metrics} with"
    for name in run.lost_benchmarks():
        yield f"in the baseline, but no test produced it: {name}"
    yield from waiver_problems(run)
    yield from acceptance_lines(run.acceptance)
    yield from difference_lines(run.acceptance)


def waiver_problems(run: Run) -> Iterator[str]:
    """Yield a sentence for each waiver that must be deleted, which fails the run.

    Waivers of other devices than those of this run are not checked.
    """
    devices = {sessions[-1].device.key for sessions in run.sessions.values()}
    for waiver in run.acceptance.waivers:
        if any(map(waiver.is_for, devices)):
            why = _why_superfluous(run, waiver)
            if why is not None:
                yield f"{run.acceptance.waivers_file}: delete the waiver of {waiver.name}: {why}"


def _why_superfluous(run: Run, waiver: Waiver) -> str | None:
    if waiver.is_expired(run.acceptance.today):
        return f"it expired on {waiver.expires}"
    if run.is_removed(waiver.benchmark):
        return "there is no such benchmark"
    results = [result for result in run.results if result.is_of(waiver)]
    metrics = {metric.name for result in results for metric in GATED[result.quantity]}
    if results and waiver.metric not in metrics:
        return "the benchmark is not held by that metric"
    judged = [
        result
        for result in results
        if (decisive := result.comparison.decisive)
        and not decisive.why_not
        and decisive.metric.name == waiver.metric
    ]
    if judged and all(result.comparison.outcome in NO_WORSE for result in judged):
        return f"without it, it is {judged[-1].comparison.outcome} on {judged[-1].now.device.key}"
    return None
