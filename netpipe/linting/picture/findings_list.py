"""The list of findings below a drawing, in full."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from rich.console import Console
from rich.text import Text

from netpipe.linting.linter import LintReport
from netpipe.linting.picture.calls import describe_call
from netpipe.linting.picture.visible_graph import (
    VisibleGraph,
    label_finding,
    shorten_middle,
    sort_by_severity,
)
from netpipe.linting.rules.finding import LintFinding

_MAX_CALLS: Final = 4


@dataclass(frozen=True)
class Line:
    """A line of the list: its classes, the label that it begins with, and the rest of it."""

    style: str = ""
    label: str = ""
    content: str = ""


def list_findings(report: LintReport, graph: VisibleGraph, columns: int) -> Iterator[Line]:
    """Yield every finding with its calls, message, cost, fix and proof; then what is silenced."""
    for finding in sort_by_severity(report.findings):
        label = shorten_middle(label_finding(finding), columns)
        yield Line(f"rule {finding.severity}", "", label)
        yield from _wrap("faint", "", _name_calls(finding, graph), columns)
        yield from _wrap("prose", "", finding.message, columns)
        for label, text in (
            ("Cost:", finding.cost),
            ("Fix:", finding.fix),
            ("Tried:", finding.proof),
        ):
            yield from _wrap("prose", label, text, columns)
        yield Line()
    for rule, reason in dict.fromkeys((one.finding.rule, one.reason) for one in report.silenced):
        yield from _wrap("faint", "Silenced:", f"{rule}: {reason}", columns)


def _wrap(style: str, label: str, text: str, columns: int) -> Iterator[Line]:
    """Yield the lines of a text; a word that is longer than a line is cut."""
    if not text:
        return
    first, *others = Text(f"{label} {text}".strip()).wrap(Console(), columns)
    yield Line(style, label, first.plain.removeprefix(label))
    for line in others:
        yield Line(style, "", line.plain)


def _name_calls(finding: LintFinding, graph: VisibleGraph) -> str:
    named = [_name_call(graph, number) for number in finding.nodes[:_MAX_CALLS]]
    more = len(finding.nodes) - _MAX_CALLS
    return ", ".join(named) + (f" and {more} more" if more > 0 else "")


def _name_call(graph: VisibleGraph, number: int) -> str:
    node = graph.nodes[number]
    return f"{describe_call(node)} ({node.made_at})" if node.made_at else str(describe_call(node))
