"""The summary at the end of a run."""

from collections.abc import Iterable, Iterator
from io import StringIO
from typing import Final

from rich.console import Console
from rich.table import Table

from netpipe.gate.acceptance import Acceptance
from netpipe.gate.baseline_changes import FileChange
from netpipe.gate.metrics import format_worse_ratio
from netpipe.gate.outcomes import UNJUDGED, Outcome
from netpipe.gate.work_baselines import WORK_FOLDER
from netpipe.plugin.gate import Gate
from netpipe.plugin.gate_results import WORK, GateResult
from netpipe.plugin.measurer import Measurer
from netpipe.plugin.run import Run
from netpipe.reporting.baseline_table import change_table
from netpipe.reporting.measurement_table import figure_lines, trace_line, verdict_table
from netpipe.reporting.tables import TerminalTable
from netpipe.reporting.work_table import work_notes
from netpipe.results.work_profile import KINDS
from netpipe.verdict.decision import find_remarks, judge
from netpipe.verdict.document import subject_label
from netpipe.verdict.kinds import VerdictKind

_WIDTH: Final = 118
_NOTHING_COMPARED: Final = (
    "nothing was compared, which fails the run: no benchmark was measured. Fix those that failed; "
    "remove the flags that skip or deselect them (-k, -m, --lf, --benchmark-skip, --collect-only; "
    "in addopts too), or --benchmark-compare"
)
_SHOWN_WORK: Final = ("calls", "allocated_bytes", "batch_bytes")
_NOTHING_JUDGED: Final = (
    "no time was judged, or no count of work, which fails a run with --netpipe-against or "
    "--netpipe-missing fail"
)
_FIRST_TESTS: Final = (
    "nothing was compared: {} has no test with netpipe at all. A slowdown in this change is not "
    "found; later changes are compared with this one"
)


def summary_lines(run: Run) -> Iterator[str]:
    """Yield the lines of the summary in the terminal."""
    for number, part in enumerate(summary_parts(run)):
        yield from [part] if isinstance(part, str) else [*[""] * bool(number), *_render(part)]


def summary_parts(run: Run) -> Iterator[str | Table]:
    """Yield the lines and tables of the summary, in order."""
    measurer = run.measurer
    yield from _order_lines(measurer)
    yield from _work_lines(measurer)
    if measurer.sessions:
        yield verdict_table(first for first, *_ in measurer.sessions.values())
        yield from _verdict_lines(measurer)
    elif not (measurer.lints or measurer.profiles or measurer.resumes):
        yield "nothing was measured: no test requested it, or those that did failed or were skipped"
    if run.gate.compares:
        yield from comparison_tables(run.gate)
        yield from _comparison_lines(run.gate)
    elif (measurer.sessions or measurer.profiles) and not run.options.record:
        yield "not compared with a baseline: use --benchmark-compare for that"
    yield from run.gate.notes


def _render(table: Table) -> Iterator[str]:
    stream = StringIO()
    # A test's name may look like markup: test_load[emulated:h100].
    Console(file=stream, width=_WIDTH, markup=False, emoji=False).print(table)
    yield from (line.rstrip() for line in stream.getvalue().rstrip().splitlines())


def _verdict_lines(measurer: Measurer) -> Iterator[str]:
    for session, *_ in measurer.sessions.values():
        verdict, label = judge(session), subject_label(session)
        if verdict.kind is not VerdictKind.HEALTHY:
            yield f"{label}: {verdict.message}"
            yield f"  next: {verdict.next}"
        yield from (f"{label}: {line}" for line in figure_lines(session, verdict))
        for remark in find_remarks(session, verdict):
            yield f"{label}: {remark.name}: {remark.message}"
        if session.trace:
            yield f"{label}: {trace_line(session)}"


def _work_lines(measurer: Measurer) -> Iterator[str]:
    for profile in measurer.profiles.values():
        amounts = (
            f"{kind} {KINDS[kind].format(profile.total(kind)).removesuffix(kind).strip()}"
            for kind in _SHOWN_WORK
            if kind in profile.counts
        )
        yield f"work per batch: {', '.join(amounts)}"
        yield f"work: counted: {profile.scope}"
        notes = (note for note in work_notes(profile) if note.label not in profile.arrays)
        yield from (f"work: {note.label}: {note.text}" for note in notes)


def _order_lines(measurer: Measurer) -> Iterator[str]:
    for lint in measurer.lints.values():
        for finding in lint["findings"]:
            yield f"order: {finding['severity']}: {finding['rule']}: {finding['message']}"
        for silence in lint["silenced"]:
            yield f"order: silenced: {silence['rule']}: {silence['reason']}"
        if not lint["findings"]:
            yield f"order: no findings (intent: {lint['intent']})"


def comparison_tables(gate: Gate) -> Iterator[Table]:
    """Yield the tables of the judged comparisons and of baseline changes."""
    judged = [each for each in gate.results if each.comparison.outcome not in UNJUDGED]
    for against in dict.fromkeys(result.against for result in judged):
        headings = ("benchmark", "metric", f"now / {against or 'baseline'}", "outcome")
        table = TerminalTable(f"against {against or 'the baseline'}", *headings)
        for result, alike in _group_work(each for each in judged if each.against == against):
            table.add_row(*_comparison_cells(result, alike))
        yield table
    for change in gate.acceptance.changes:
        if (difference := change.difference) is not None:
            yield change_table(difference, f"baseline changed: {change.file}")


def _group_work(results: Iterable[GateResult]) -> Iterator[tuple[GateResult, int]]:
    """Yield one result for each group of similar kinds of work in a test, and the group's size."""
    grouped: dict[tuple[object, ...], list[GateResult]] = {}
    for result in results:
        comparison = result.comparison
        ratio, is_pass = comparison.worse_ratio, comparison.outcome is Outcome.PASS
        # A rise of a few bytes passes whatever its ratio, so it has a row of its own.
        is_within = ratio is not None and ratio <= comparison.bound
        is_plain = result.quantity == WORK and is_pass and is_within
        kind = "" if is_plain else comparison.metric
        key = (result.benchmark, result.quantity, kind, comparison.is_drift)
        grouped.setdefault((*key, comparison.outcome), []).append(result)
    yield from ((alike[0], len(alike)) for alike in grouped.values())


def _comparison_cells(result: GateResult, alike: int) -> Iterator[str]:
    comparison = result.comparison
    change = comparison.shown_change
    change = change or format_worse_ratio(comparison.metric, comparison.worse_ratio)
    yield _short_name(result)
    since = " since the oldest" if comparison.is_drift else ""
    metric = f"{comparison.metric or result.quantity}{since}"
    yield metric if alike == 1 else f"{alike} kinds of work"
    yield change if alike == 1 else "at most 1.01 x"
    yield result.outcome


def _short_name(result: GateResult) -> str:
    return result.benchmark.split("::", 1)[-1]


def _comparison_lines(gate: Gate) -> Iterator[str]:
    """Yield the reasons of comparisons that did not PASS, lost benchmarks, and changes."""
    against, acceptance = gate.measurer.against, gate.acceptance
    if gate.compares_nothing:
        yield _NOTHING_JUDGED if gate.results else _NOTHING_COMPARED
    elif against is not None and against.has_no_tests:
        yield _FIRST_TESTS.format(against.commit.label)
    tests: dict[str, list[str]] = {}
    for result in gate.results:
        comparison = result.comparison
        line = f"{result.outcome}{';' if result.waiver else ':'} {comparison.reason}"
        # The table does not have what was not judged, and most reasons do not name the test.
        is_unnamed = comparison.outcome in UNJUDGED and not line.endswith(result.benchmark)
        # The reason for a count of work that passed may list omitted parts or a rise in CPU time.
        is_told = result.quantity == WORK and "; " in comparison.reason
        if comparison.outcome is not Outcome.PASS or is_told:
            tests.setdefault(line, []).extend([_short_name(result)] * is_unnamed)
    for line, names in tests.items():
        yield line + f" ({', '.join(dict.fromkeys(names))})" * bool(names)
    if any(result.is_missing and not result.against for result in gate.results):
        yield "to record a baseline, run the same command with --netpipe-record NAME"
        if gate.local_baselines is not None:
            yield "  or, in one session and for this machine only, with --netpipe-record local"
    latest_only = (
        result.comparison.metric
        for result in gate.results
        if not (result.quantity == WORK or result.against or result.comparison.oldest)
        and result.comparison.outcome not in UNJUDGED
    )
    if metrics := ", ".join(dict.fromkeys(latest_only)):
        yield f"small steps were not added up: no earlier baseline to compare {metrics} with"
    for name in gate.lost_benchmarks():
        yield f"in the baseline, but no test produced it: {name}"
    yield from gate.waiver_problems()
    if acceptance.commit is not None:
        yield f"baselines of {acceptance.commit.sha[:7]}, {acceptance.commit.ref}"
    yield from (line for _, line in change_notes(acceptance))


def change_notes(acceptance: Acceptance) -> Iterator[tuple[str, str]]:
    """Yield the file, relative to the root, and a line for each baseline change and new waiver."""
    for change in acceptance.changes:
        found = change.difference
        description = "; ".join((_describe(change), *(found.differences if found else ())))
        yield f"{acceptance.shown}/{change.file}", f"baseline changed: {description}"
    for waiver in acceptance.added:
        terms = f"at most {waiver.bound:g} x the baseline's, {waiver.remark}"
        yield acceptance.waivers_file, f"waiver added by this change: {waiver.name}, {terms}"


def _describe(change: FileChange) -> str:
    if change.file.startswith(f"{WORK_FOLDER}/"):
        return f"{change.kind} {change.file}"
    device = change.file.partition("/")[0]
    if change.after is None:
        return f"{change.kind} {change.file}, which leaves {device} without a baseline"
    if change.kind == "removed":
        return f"removed {change.file}; runs would be compared with {change.after.path.name}"
    if change.before is None:
        return f"{change.kind} {change.file}, the first readable one of {device}"
    if change.kind == "replaced":
        return f"replaced {change.file}, under the same name"
    return f"added {change.file}; {change.before.path.name} was accepted before"
