"""The SVG of a pipeline."""

from dataclasses import replace
from xml.etree import ElementTree as ET

import pytest

from netpipe.linting.linter import LintReport
from netpipe.linting.rules.finding import SilencedFinding
from netpipe.reporting.picture.drawing import draw_svg
from tests.reporting.picture.pictured import (
    PIPELINES,
    findings_of_all_severities,
    report_on,
    straight,
)
from tests.reporting.picture.test_terminal import printed

SVG = "{http://www.w3.org/2000/svg}"

every_pipeline = pytest.mark.parametrize("name", PIPELINES)


def report_of(name: str) -> LintReport:
    """Report on a pipeline with every finding."""
    return report_on(PIPELINES[name](), findings_of_all_severities())


def words(drawing: str) -> str:
    """Return all text that is shown, with single spaces."""
    lines = ("".join(text.itertext()) for text in ET.fromstring(drawing).iter(f"{SVG}text"))
    return " ".join(" ".join(lines).split())


@every_pipeline
def test_a_drawing_is_the_picture_in_the_terminal(name: str) -> None:
    """The SVG has the text of the terminal's picture."""
    report = report_of(name)
    picture = " ".join(printed(report).split())
    assert words(draw_svg(report, lists_findings=False)) == picture
    assert words(draw_svg(report)).startswith(picture)


@every_pipeline
def test_it_needs_nothing_else_and_is_always_the_same(name: str) -> None:
    """The SVG has no URL but the SVG namespace, no script, no font and no external style."""
    text = draw_svg(report_of(name))
    assert text.replace('xmlns="http://www.w3.org/2000/svg"', "").count("http") == 0
    assert not any(word in text for word in ("<script", "@import", "@font-face", "href"))
    assert text.count("url(") == text.count("url(#")
    assert text == draw_svg(report_of(name))


def test_it_follows_a_dark_page() -> None:
    """Every colour of the light page has one for a dark page."""
    light, dark = draw_svg(report_of("straight")).split("@media (prefers-color-scheme: dark)")
    assert light.count("fill: #") == dark.count("fill: #") > 4
    assert "fill: #ffffff" in light
    assert "fill: #ffffff" not in dark


def test_text_from_outside_is_escaped() -> None:
    """Names and messages may hold markup, fields and characters that XML does not allow."""
    finding, *_ = findings_of_all_severities()
    evil = replace(finding, message="<script>&\"']]>\x00 {styles} $light end")
    report = report_on(straight(), {evil: ("Filter",)})
    nodes = [
        replace(node, parameters={"transform": "m.<b>&\x01"}, made_at="<i>{lines}$dark.py:1")
        for node in report.graph.nodes
    ]
    drawing = draw_svg(replace(report, graph=replace(report.graph, nodes=tuple(nodes))))
    assert "<script>&\"']]>\N{REPLACEMENT CHARACTER} {styles} $light end" in words(drawing)
    assert "<b>&\N{REPLACEMENT CHARACTER}" in words(drawing)
    assert "<i>{lines}$dark.py:1" in words(drawing)


def test_a_notebook_does_not_show_the_picture_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawing displays nothing in a notebook, where rich would."""
    shown: list[object] = []
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    monkeypatch.setattr("rich.jupyter.display", lambda *words: shown.append(words))
    draw_svg(report_of("straight"))
    assert shown == []


def test_findings_are_listed_without_a_graph() -> None:
    """Findings without a graph are listed, and the description says so."""
    finding, *_ = findings_of_all_severities()
    drawing = draw_svg(report_on([1, 2], {finding: ()}))
    assert "There is no Grain graph" in drawing
    assert finding.message in words(drawing)


def test_silenced_findings_are_listed_with_their_reason() -> None:
    """Silenced findings are listed with their reason, and are not counted."""
    finding, *_ = findings_of_all_severities()
    silenced = (SilencedFinding(**vars(finding), reason="one slow map"),)
    drawing = draw_svg(replace(report_on(straight()), silenced=silenced))
    assert f"silenced: {finding.rule}: one slow map" in words(drawing)
    assert "nothing found" in drawing
