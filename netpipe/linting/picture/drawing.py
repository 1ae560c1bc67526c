"""A pipeline as one SVG: its calls, the processes that they run in, and what is wrong.

The drawing needs nothing else: no script, no font, no other file. It follows the reader's light or
dark setting, and is the same for the same report.
"""

from collections.abc import Sequence
from typing import Final

from netpipe.linting.linter import LintReport
from netpipe.linting.picture.boxes import draw
from netpipe.linting.picture.calls import describe_call, format_count
from netpipe.linting.picture.findings_list import listed
from netpipe.linting.picture.style import HEADING_SIZE, STYLE
from netpipe.linting.picture.svg import element, plain, text
from netpipe.linting.picture.visible_graph import NO_GRAPH, SEVERITIES, VisibleGraph, select_visible

_MARGIN: Final = 24.0
_EDGE: Final = 1.0  # for the width of lines
_HEADING: Final = 60.0
_DESCRIPTION_Y: Final = _MARGIN + HEADING_SIZE + 20
_PROSE_WIDTHS: Final = (600.0, 760.0)


def draw_svg(report: LintReport) -> str:
    """Draw a pipeline with its findings.

    Args:
        report: The pipeline and what was found.

    Returns:
        The text of an SVG file.
    """
    pipeline = select_visible(report)
    drawn, width, height = draw(pipeline) if pipeline.last else ([], 0.0, 0.0)
    least, most = _PROSE_WIDTHS
    room = max(width, least)
    left, top = _MARGIN + (room - width) / 2, _MARGIN + _HEADING
    below = top + height + 2 * _MARGIN
    findings, end = listed(report, pipeline, _MARGIN, below, min(room, most))
    heading, description = _heading(report), _description(report, pipeline)
    content = [
        text(_MARGIN, _MARGIN + HEADING_SIZE, heading, "heading"),
        text(_MARGIN, _DESCRIPTION_Y, description, "faint"),
        element("g", *drawn, transform=f"translate({left:g} {top:g})"),
        *findings,
    ]
    title, order = f"{description}: {heading}", _order(pipeline)
    return _page(title, order, content, room + 2 * _MARGIN, end + _MARGIN)


def draw_svg_graph(report: LintReport) -> str:
    """Draw the calls of a pipeline, one at least, alone: without heading and list of findings.

    Args:
        report: The pipeline; what was found stands at its calls.

    Returns:
        The text of an SVG file.
    """
    pipeline = select_visible(report)
    drawn, width, height = draw(pipeline)
    moved = element("g", *drawn, transform=f"translate({_EDGE:g} {_EDGE:g})")
    title, order = _description(report, pipeline), _order(pipeline)
    return _page(title, order, [moved], width + 2 * _EDGE, height + 2 * _EDGE)


def _page(title: str, description: str, content: Sequence[str], width: float, height: float) -> str:
    return element(
        "svg",
        element("title", plain(title), id="netpipe-title"),
        element("desc", plain(description), id="netpipe-description"),
        element("style", STYLE),
        element("rect", width="100%", height="100%", class_="page"),
        *content,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {width:.0f} {height:.0f}",
        width=f"{width:.0f}",
        height=f"{height:.0f}",
        class_="netpipe",
        role="img",
        aria_labelledby="netpipe-title netpipe-description",
    )


def _heading(report: LintReport) -> str:
    counts = [sum(one.severity == each for one in report.findings) for each in SEVERITIES]
    words = zip(counts, ("error", "warning", "remark"), strict=True)
    said = ", ".join(format_count(count, word) for count, word in words if count) or "Nothing found"
    return f"{said}, {len(report.silenced)} silenced" if report.silenced else said


def _description(report: LintReport, pipeline: VisibleGraph) -> str:
    what = "A pipeline" if pipeline.last else "A loader without a Grain graph"
    return f"{what}, judged for {report.intent} under Grain {report.grain_version}"


def _order(pipeline: VisibleGraph) -> str:
    """Tell the drawing to those who do not see it."""
    calls = [str(describe_call(node)) for node in reversed(list(pipeline.nodes.values()))]
    return f"From the source to the trainer: {'; '.join(calls)}" if calls else NO_GRAPH
