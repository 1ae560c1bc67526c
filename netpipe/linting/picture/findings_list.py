"""The findings below a drawing, in full."""

from collections.abc import Iterator, Sequence
from typing import Final

from netpipe.linting.linter import LintReport
from netpipe.linting.picture.calls import describe_call
from netpipe.linting.picture.lettering import monospace_columns, monospace_width, wrapped
from netpipe.linting.picture.style import CHIP_SIZE, PROSE_SIZE
from netpipe.linting.picture.svg import element, plain, text
from netpipe.linting.picture.visible_graph import (
    VisibleGraph,
    label_finding,
    shorten_middle,
    sort_by_severity,
)
from netpipe.linting.rules.finding import LintFinding

_LINE: Final = 19.0
_CHIP: Final = 20.0
_INSET: Final = 8.0
_MOST_CALLS: Final = 4


def listed(
    report: LintReport, pipeline: VisibleGraph, x: float, y: float, width: float
) -> tuple[Sequence[str], float]:
    """Write every finding out: its calls, its message, its cost and its fix; then what is silenced.

    Args:
        report: What was found.
        pipeline: What of it is drawn.
        x: Where the lines begin.
        y: Where the first finding begins.
        width: What the lines are wrapped to.

    Returns:
        The elements, and where the last of them ends.
    """
    elements: list[str] = []
    for finding in sort_by_severity(report.findings):
        elements += _chip(finding, x, y, width)
        y += _CHIP + _LINE - 2
        for look, label, line in _lines(finding, pipeline, width):
            elements.append(_line(x, y, look, label, line))
            y += _LINE
        y += _LINE / 2
    for label, line in _silenced(report, width):
        elements.append(_line(x, y, "faint", label, line))
        y += _LINE
    written = y + _LINE / 2 if report.silenced else y
    return elements, written - _LINE if elements else y - 2 * _LINE


def _silenced(report: LintReport, width: float) -> Iterator[tuple[str, str]]:
    """Yield the lines of each silenced rule, once, with its reason and the label before it."""
    for rule, reason in dict.fromkeys((one.finding.rule, one.reason) for one in report.silenced):
        yield from _paragraph("Silenced:", f"{rule}: {reason}", width)


def _chip(finding: LintFinding, x: float, y: float, width: float) -> Iterator[str]:
    columns = monospace_columns(width - 2 * _INSET, CHIP_SIZE)
    rule = shorten_middle(label_finding(finding), columns)
    wide = monospace_width(rule, CHIP_SIZE) + 2 * _INSET
    look = f"chip {finding.severity}"
    yield element("rect", x=x, y=y, width=wide, height=_CHIP, rx=4, class_=look)
    yield text(x + _INSET, y + 14, rule, f"rule {finding.severity}")


def _lines(
    finding: LintFinding, pipeline: VisibleGraph, width: float
) -> Iterator[tuple[str, str, str]]:
    """Yield the look of each line, the label that it begins with, and the rest of it."""
    paragraphs = [
        ("faint", "", _calls(finding, pipeline)),
        ("prose", "", finding.message),
        ("prose", "Cost:", finding.cost),
        ("prose", "Fix:", finding.fix),
        ("prose", "Tried:", finding.proof),
    ]
    for look, label, content in paragraphs:
        for begins, line in _paragraph(label, content, width) if content else ():
            yield look, begins, line


def _paragraph(label: str, content: str, width: float) -> Iterator[tuple[str, str]]:
    """Yield the lines of a paragraph: the label that each begins with, and the rest of it."""
    for number, line in enumerate(wrapped(f"{label} {content}", width, PROSE_SIZE)):
        begins = label if number == 0 else ""
        yield begins, line.removeprefix(begins)


def _calls(finding: LintFinding, pipeline: VisibleGraph) -> str:
    named = ", ".join(_where(pipeline, node) for node in finding.nodes[:_MOST_CALLS])
    more = len(finding.nodes) - _MOST_CALLS
    return f"{named} and {more} more" if more > 0 else named


def _where(pipeline: VisibleGraph, number: int) -> str:
    node = pipeline.nodes[number]
    return f"{describe_call(node)} ({node.made_at})" if node.made_at else str(describe_call(node))


def _line(x: float, y: float, look: str, label: str, content: str) -> str:
    bold = element("tspan", plain(label)) if label else ""
    return element("text", bold, plain(content), x=x, y=y, class_=look)
