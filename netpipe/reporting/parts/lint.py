"""The part of a lint report: the order of the pipeline's calls, and the findings."""

from collections.abc import Iterator, Mapping
from typing import Any

from netpipe.linting.linter import LintReport, parse_report
from netpipe.linting.rules.finding import LintFinding, sort_by_severity
from netpipe.reporting.content import Card, Drawing, Headline, Note, Notes, Part
from netpipe.reporting.picture.drawing import draw_svg
from netpipe.reporting.picture.visible_graph import WORDS, count_findings
from netpipe.reporting.tables import Cell, Table
from netpipe.reporting.tones import BY_SEVERITY, Tone


def build_lint_part(document: Mapping[str, Any]) -> Part:
    """Return the part of a `netpipe.lint/1` document."""
    report = parse_report(document)
    cards = list(_build_cards(report, document["trials"]))
    return Part("The order of the calls", _build_headline(report), cards=cards)


def _build_headline(report: LintReport) -> Headline:
    findings = sort_by_severity(report.findings)
    if not findings:
        sentence = f"No findings for {report.intent} under Grain {report.grain_version}."
        return Headline(Tone.GOOD, "In order", sentence)
    worst = findings[0]
    sentence = f"{worst.rule}: {worst.message}."
    return Headline(BY_SEVERITY[worst.severity], count_findings(report), sentence, worst.fix)


def _build_cards(report: LintReport, trials: list[dict[str, Any]]) -> Iterator[Card]:
    if report.graph.nodes:
        caption = f"From the source to the trainer, as Grain {report.grain_version} reads it."
        yield Drawing(
            "The pipeline", draw_svg(report, lists_findings=False), caption, is_scrolled=True
        )
    if report.findings:
        yield Notes("Findings", list(map(_describe, sort_by_severity(report.findings))))
    rows = []
    for trial in trials:
        change = Cell(trial["change"], trial["rule"], is_code=True)
        rows.append({"change": change, "result": Cell(trial["message"])})
    if rows:
        yield Table("Proposals, tried", "Each was measured before and after, in one run.", rows)
    if reasons := dict.fromkeys((aside.rule, aside.reason) for aside in report.silenced):
        yield Notes("Silenced", [Note(*reason) for reason in reasons])


def _describe(found: LintFinding) -> Note:
    more = (("Cost", found.cost), ("Fix", found.fix), ("Tried", found.proof))
    label = f"{WORDS[found.severity]}: {found.rule}"
    known = tuple((name, text) for name, text in more if text)
    return Note(label, found.message, BY_SEVERITY[found.severity], known)
