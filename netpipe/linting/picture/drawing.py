"""A pipeline as one SVG: its calls, the processes that they run in, and its findings.

The drawing needs nothing else: no script, no font, no other file. It follows the reader's light or
dark setting, and is the same for the same report.
"""

from functools import cache
from typing import Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from rich.cells import cell_len

from netpipe.linting.linter import LintReport
from netpipe.linting.picture.calls import describe_call, format_count
from netpipe.linting.picture.findings_list import Line, list_findings
from netpipe.linting.picture.layout import Layout
from netpipe.linting.picture.outline import outline_graph
from netpipe.linting.picture.visible_graph import (
    NO_GRAPH,
    SEVERITIES,
    VisibleGraph,
    label_finding,
    select_visible,
    shorten_middle,
)

# The width in letters that the template reserves for the list of findings.
_LIST_COLUMNS: Final = 96
_NOT_IN_XML: Final = dict.fromkeys(
    [*range(9), 11, 12, *range(14, 32), 0xFFFE, 0xFFFF], "\N{REPLACEMENT CHARACTER}"
)


def draw_svg(report: LintReport) -> str:
    """Draw a pipeline, and below it a list of its findings.

    Args:
        report: The pipeline and its findings.

    Returns:
        The text of an SVG file.
    """
    graph = select_visible(report)
    lines = tuple(list_findings(report, graph, _LIST_COLUMNS))
    return _render(report, graph, _count_findings(report), lines)


def draw_svg_graph(report: LintReport) -> str:
    """Draw a pipeline without heading and list of findings.

    Args:
        report: The pipeline and its findings, which are marked at their calls.

    Returns:
        The text of an SVG file.
    """
    return _render(report, select_visible(report))


def _render(
    report: LintReport, graph: VisibleGraph, heading: str = "", lines: tuple[Line, ...] = ()
) -> str:
    layout = Layout(outline_graph(graph))
    subject = "A pipeline" if graph.last else "A loader without a Grain graph"
    calls = "; ".join(str(describe_call(node)) for node in reversed(list(graph.nodes.values())))
    template = _environment().get_template("picture.svg")
    drawing = template.render(
        layout=layout,
        heading=heading,
        lines=lines,
        subject=f"{subject}, judged for {report.intent} under Grain {report.grain_version}",
        order=f"From the source to the trainer: {calls}" if calls else NO_GRAPH,
    )
    return drawing.translate(_NOT_IN_XML)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("netpipe.linting.picture"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"columns": cell_len, "label": label_finding, "shorten": shorten_middle}
    return environment


def _count_findings(report: LintReport) -> str:
    counts = [sum(one.severity == severity for one in report.findings) for severity in SEVERITIES]
    words = zip(counts, ("error", "warning", "remark"), strict=True)
    counted = ", ".join(format_count(count, word) for count, word in words if count)
    silenced = f", {len(report.silenced)} silenced" if report.silenced else ""
    return (counted or "Nothing found") + silenced
