"""The order of a pipeline's calls: its graph, and what stands in the wrong place."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from netpipe.linting.linter import LintReport, parse_report
from netpipe.linting.picture.drawing import draw_svg_graph
from netpipe.linting.picture.visible_graph import SEVERITIES, sort_by_severity
from netpipe.linting.rules.finding import LintFinding
from netpipe.page import tones
from netpipe.page.content import (
    Card,
    Cell,
    Column,
    Drawing,
    Headline,
    Note,
    Notes,
    Part,
    Table,
    Tone,
)

_WORDS: Final = {"error": "error", "warning": "warning", "info": "remark"}


def lint_part(document: Mapping[str, Any]) -> Part:
    """Return what is shown of a `netpipe.lint/1` document."""
    return Part("The order of the calls", _headline(_report(document)), cards=lint_cards(document))


def lint_cards(document: Mapping[str, Any]) -> tuple[Card, ...]:
    """Return the cards of a pipeline's order: the graph first."""
    report = _report(document)
    return (*_graph(report), *_findings(report), *_trials(document), *_silenced(report))


def _report(document: Mapping[str, Any]) -> LintReport:
    known = {name: value for name, value in document.items() if name != "trials"}
    return parse_report(known, "lint")


def _headline(report: LintReport) -> Headline:
    found = sort_by_severity(report.findings)
    if not found:
        kept = f"Nothing stands wrong, for {report.intent}, under Grain {report.grain_version}."
        return Headline(Tone.GOOD, "In order", kept)
    counts = {one: sum(each.severity == one for each in found) for one in SEVERITIES}
    said = ", ".join(_counted(count, _WORDS[one]) for one, count in counts.items() if count)
    gravest = found[0]
    tone = tones.OF_SEVERITY[gravest.severity]
    return Headline(tone, said, f"{gravest.rule}: {gravest.message}.", gravest.fix)


def _counted(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def _graph(report: LintReport) -> Iterator[Drawing]:
    if report.graph.nodes:
        yield Drawing(
            "The pipeline",
            draw_svg_graph(report),
            f"From the source at the top to the trainer, as Grain {report.grain_version} reads it.",
            is_wide=any(len(one.parents) > 1 for one in report.graph.nodes),
            is_scrolled=True,
        )


def _findings(report: LintReport) -> Iterator[Notes]:
    if found := sort_by_severity(report.findings):
        yield Notes("What stands wrong", tuple(_note(one) for one in found))


def _note(finding: LintFinding) -> Note:
    more = (("Cost", finding.cost), ("Fix", finding.fix), ("Tried", finding.proof))
    return Note(
        f"{_WORDS[finding.severity]}: {finding.rule}",
        finding.message,
        tones.OF_SEVERITY[finding.severity],
        tuple((label, text) for label, text in more if text),
    )


def _trials(document: Mapping[str, Any]) -> Iterator[Table]:
    if trials := document["trials"]:
        yield Table(
            "Proposals, tried",
            "Each was measured before and after, in one run.",
            (Column("change"), Column("what came of it")),
            tuple(
                (Cell(one["change"], note=one["rule"], is_code=True), Cell(one["message"]))
                for one in trials
            ),
        )


def _silenced(report: LintReport) -> Iterator[Notes]:
    reasons = dict.fromkeys((one.finding.rule, one.reason) for one in report.silenced)
    if reasons:
        yield Notes("Silenced", tuple(Note(rule, reason) for rule, reason in reasons))
