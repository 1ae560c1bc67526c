"""What the terminal shows at the end of a run, and the same as JSON."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from io import StringIO
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from netpipe.gate.comparison import Outcome
from netpipe.linting.rules import UNUSED_SILENCE
from netpipe.results.measurement import Measurement
from netpipe.suite.acceptance import (
    acceptance_document,
    acceptance_lines,
    change_tables,
    difference_lines,
    waiver_document,
)
from netpipe.suite.metric_history import read_history
from netpipe.suite.run import GateResult, Run
from netpipe.suite.unused_waivers import waiver_problems
from netpipe.verdict.decision import find_remarks, judge
from netpipe.verdict.kinds import VerdictKind
from netpipe.verdict.report import (
    device_label,
    measurement_document,
    new_table,
    trace_line,
    verdict_table,
)
from netpipe.whole_file import write_whole

_WIDTH = 118
_NOTHING_COMPARED = (
    "nothing was compared, which fails the run: no benchmark got so far. Mend those that failed; "
    "leave out what skips or deselects them (-k, -m, --lf, --benchmark-skip, --collect-only; in "
    "addopts too), or --benchmark-compare"
)
_NOTHING_JUDGED = (
    "no metric was judged, which fails a run with --netpipe-against or --netpipe-missing fail"
)


def summary_lines(run: Run) -> Iterator[str]:
    """Give the lines of the summary.

    Args:
        run: What was measured and compared.
    """
    yield from order_lines(run)
    if run.sessions:
        yield from _drawn(verdict_table(latest(run)))
        yield from verdict_lines(run)
    elif not run.lints:
        yield "nothing was measured: no test asked for it, or all that did were skipped"
    if run.compares or run.options.against:
        yield from _comparisons(run)
    elif run.sessions and not run.options.record:
        yield "compared with no baseline: --benchmark-compare does that"
    yield from run.notes


def verdict_lines(run: Run) -> Iterator[str]:
    """Give what is to be said of each measurement beside its row in the table."""
    for one in latest(run):
        verdict = judge(one)
        if verdict.kind != VerdictKind.HEALTHY:
            yield f"{device_label(one.device)}: {verdict.message}"
            yield f"  next: {verdict.next}"
        for remark in find_remarks(one, verdict):
            yield f"{device_label(one.device)}: {remark.name}: {remark.message}"
        if one.trace:
            yield f"{device_label(one.device)}: {trace_line(one)}"


def latest(run: Run) -> list[Measurement]:
    """Return the last session of everything that was measured."""
    return [sessions[-1] for sessions in run.sessions.values()]


def _comparisons(run: Run) -> Iterator[str]:
    for table in (*comparison_tables(run), *change_tables(run.acceptance)):
        yield from _drawn(table)
    yield from comparison_lines(run)


def order_lines(run: Run) -> Iterator[str]:
    """Give what was found in the order of every loader."""
    unused = [one for lint in run.lints.values() for one in lint["findings"] if _is_unused(one)]
    for lint in run.lints.values():
        for one in lint["findings"]:
            # A silence is the project's: it is unused if none of its pipelines needs it.
            if not _is_unused(one) or unused.count(one) == len(run.lints):
                yield f"order: {one['severity']}: {one['rule']}: {one['message']}"
        for one in lint["silenced"]:
            yield f"order: silenced: {one['rule']}: {one['reason']}"
        if not lint["findings"]:
            yield f"order: nothing stands wrong, for {lint['intent']}"


def _is_unused(finding: Mapping[str, Any]) -> bool:
    return bool(finding["rule"] == UNUSED_SILENCE)


def comparison_tables(run: Run) -> Iterator[Table]:
    """Give one table for each thing that quantities were compared with."""
    for against in dict.fromkeys(one.against for one in run.compared):
        yield _comparison_table([one for one in run.compared if one.against == against], against)


def _comparison_table(compared: Sequence[GateResult], against: str) -> Table:
    """Return one row for each metric that was held against the same."""
    table = new_table(f"against {against or 'the baseline'}")
    for heading in ("benchmark", "metric", f"now / {against or 'baseline'}", "outcome"):
        table.add_column(heading)
    for one in compared:
        comparison = one.comparison
        table.add_row(
            one.benchmark.rpartition("::")[2],
            _metric(one),
            "" if comparison.worse_ratio is None else f"{comparison.worse_ratio:.2f} x",
            _outcome(one),
        )
    return table


def _metric(compared: GateResult) -> str:
    decisive = compared.comparison.decisive
    since = " since the oldest" if decisive and decisive.is_drift else ""
    return f"{compared.comparison.metric or compared.quantity}{since}"


def _outcome(compared: GateResult) -> str:
    why_not = compared.comparison.why_not
    return f"{compared.outcome}: {why_not}" if why_not else compared.outcome


def comparison_lines(run: Run) -> Iterator[str]:
    """Give why a comparison was no PASS, and which benchmarks were lost."""
    if run.compares_nothing:
        yield _NOTHING_JUDGED if run.compared else _NOTHING_COMPARED
    said: set[str] = set()
    for one in run.compared:
        reason = f"{one.outcome}{';' if one.waiver else ':'} {one.comparison.reason}"
        if one.comparison.outcome is not Outcome.PASS and reason not in said:
            said.add(reason)
            yield reason
    if any(one.is_missing and not one.against for one in run.compared):
        yield "record one: the same command with --netpipe-record NAME"
    alone = [one.comparison.metric for one in run.compared if one.has_no_earlier]
    if alone:
        metrics = ", ".join(dict.fromkeys(alone))
        yield f"small steps were not added up: no earlier baseline to compare {metrics} with"
    for name in run.lost_benchmarks():
        yield f"in the baseline, but no test produced it: {name}"
    yield from waiver_problems(run)
    yield from acceptance_lines(run.acceptance)
    yield from difference_lines(run.acceptance)


def _drawn(table: Table) -> Iterator[str]:
    stream = StringIO()
    # A test's name holds its parameters: test_load[emulated:h100] is no markup.
    Console(file=stream, width=_WIDTH, markup=False, emoji=False).print(table)
    yield from (line.rstrip() for line in stream.getvalue().rstrip().splitlines())


def write_json(run: Run, path: Path) -> None:
    """Write the document of a run.

    Raises:
        InputError: The file cannot be written.
    """
    text = json.dumps(run_document(run), indent=1, allow_nan=False) + "\n"
    write_whole(path, text, "--netpipe-json")


def run_document(run: Run) -> dict[str, Any]:
    """Return every measurement, verdict and comparison as one `netpipe.run/1` document."""
    return {
        "schema": "netpipe.run/1",
        "measurements": [_measured(one) for sessions in run.sessions.values() for one in sessions],
        "lints": list(run.lints.values()),
        "accepted": acceptance_document(run.acceptance),
        "comparisons": [
            {
                "benchmark": one.benchmark,
                "device": one.now.device.key,
                "quantity": one.quantity,
                "against": one.against or None,
                "metric": one.comparison.metric,
                "outcome": one.comparison.outcome.value,
                "now": one.comparison.now,
                "baseline": one.comparison.then,
                "is_reported_only": one.comparison.is_reported_only,
                "worse_ratio": one.comparison.worse_ratio,
                "reason": one.comparison.reason,
                "oldest": one.comparison.oldest or None,
                "waiver": one.waiver and waiver_document(one.waiver),
                "history": [asdict(past) for past in read_history(run, one)],
            }
            for one in run.compared
        ],
        "against": _against(run),
    }


def _against(run: Run) -> dict[str, Any] | None:
    if run.against is None:
        return None
    pairs = run.against.every_pair()
    return {
        "ref": run.against.ref,
        "commit": run.against.commit.sha,
        "pairs": [{"base": _measured(one.base), "now": _measured(one.now)} for one in pairs],
    }


def _measured(measurement: Measurement) -> dict[str, Any]:
    return measurement_document(measurement, judge(measurement))
