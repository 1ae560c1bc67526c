"""The order of a pipeline's calls: its graph and its findings."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from netpipe.linting.linter import LintReport, parse_report
from netpipe.linting.picture.calls import format_count
from netpipe.linting.picture.drawing import draw_svg_graph
from netpipe.linting.rules.finding import SEVERITIES, LintFinding, sort_by_severity
from netpipe.page import tones
from netpipe.page.content import (
    Card,
    Cell,
    Drawing,
    Headline,
    Note,
    Notes,
    Part,
    Table,
    Tone,
    head_columns,
)

_WORDS: Final = {"error": "error", "warning": "warning", "info": "remark"}


def build_lint_part(document: Mapping[str, Any]) -> Part:
    """Return the part of a `netpipe.lint/1` document."""
    fields = {name: value for name, value in document.items() if name != "trials"}
    report = parse_report(fields, "lint")
    cards = tuple(_build_cards(report, document["trials"]))
    return Part("The order of the calls", _build_headline(report), cards=cards)


def _build_headline(report: LintReport) -> Headline:
    findings = sort_by_severity(report.findings)
    if not findings:
        sentence = f"No findings for {report.intent} under Grain {report.grain_version}."
        return Headline(Tone.GOOD, "In order", sentence)
    counts = {name: sum(one.severity == name for one in findings) for name in SEVERITIES}
    word = ", ".join(format_count(count, _WORDS[name]) for name, count in counts.items() if count)
    worst = findings[0]
    tone = tones.BY_SEVERITY[worst.severity]
    return Headline(tone, word, f"{worst.rule}: {worst.message}.", worst.fix)


def _build_cards(report: LintReport, trials: list[dict[str, Any]]) -> Iterator[Card]:
    if report.graph.nodes:
        caption = f"From the source to the trainer, as Grain {report.grain_version} reads it."
        yield Drawing("The pipeline", draw_svg_graph(report), caption, is_scrolled=True)
    if findings := sort_by_severity(report.findings):
        yield Notes("Findings", tuple(map(_build_note, findings)))
    if trials:
        yield _build_trials(trials)
    if reasons := dict.fromkeys((one.finding.rule, one.reason) for one in report.silenced):
        yield Notes("Silenced", tuple(Note(rule, reason) for rule, reason in reasons))


def _build_note(finding: LintFinding) -> Note:
    more = (("Cost", finding.cost), ("Fix", finding.fix), ("Tried", finding.proof))
    return Note(
        f"{_WORDS[finding.severity]}: {finding.rule}",
        finding.message,
        tones.BY_SEVERITY[finding.severity],
        tuple((label, text) for label, text in more if text),
    )


def _build_trials(trials: list[dict[str, Any]]) -> Table:
    return Table(
        "Proposals, tried",
        "Each was measured before and after, in one run.",
        head_columns("change", "result", figures=()),
        tuple(
            (Cell(trial["change"], note=trial["rule"], is_code=True), Cell(trial["message"]))
            for trial in trials
        ),
    )
