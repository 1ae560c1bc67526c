"""Drawings have no colours of their own, unique ids and the right axes."""

import re
from dataclasses import replace
from math import inf

import pytest

from netpipe.reporting.plots.canvas import Ink
from netpipe.reporting.plots.rows import (
    Row,
    draw_amounts,
    draw_factors,
    draw_stage_bars,
)
from netpipe.reporting.plots.timeline import build_timeline, draw_distributions, draw_timeline
from netpipe.reporting.rendering import inline_svg
from netpipe.results.measurement import Interval
from netpipe.results.step_times import StepTimes
from netpipe.results.units import format_amount
from tests.reporting import examples
from tests.reporting.examples import HOSTILE, findings, near
from tests.reporting.parsed import parsed

UNBOUNDED = Interval(0.01, -inf, inf, 2)
STEPS = tuple(StepTimes(**step) for step in examples.timeline())
PERCENTILES = examples.distributions()

DRAWINGS = {
    "timeline": draw_timeline(build_timeline(STEPS)),
    "distributions": draw_distributions(PERCENTILES["train_step_s"], PERCENTILES["wait_s"]),
    "durations": draw_amounts([Row("a", near(0.01)), Row("b", UNBOUNDED)], 0.02),
    "amounts": draw_amounts([Row("a", near(2e7))], write=format_amount),
    "factors": draw_factors([Row("a", near(0.3)), Row("b", near(40.0))], "keeps up"),
    "stages": draw_stage_bars(findings("tokenize").stages, ".map(tokenize)"),
}


def texts(svg: str) -> list[str]:
    """Return the text of a drawing."""
    return parsed(inline_svg(svg, "a-", "title")).texts


@pytest.mark.parametrize("name", DRAWINGS)
def test_a_style_sheet_decides_on_every_colour(name: str) -> None:
    """Every colour is a CSS variable, transparent or none."""
    found = inline_svg(DRAWINGS[name], "a-", "title")
    assert not re.findall(r"#[0-9a-f]{6}", found)
    assert set(re.findall(r"var\((--\w+)\)", found)) <= {f"--{ink.name.lower()}" for ink in Ink}


@pytest.mark.parametrize("name", DRAWINGS)
def test_a_drawing_leaves_the_rest_of_a_page_alone(name: str) -> None:
    """A drawing has no style sheet, date or link, and all its ids begin with the given prefix."""
    found = inline_svg(DRAWINGS[name], "mine-", "title")
    assert not re.search(r"<style|<metadata|http", found)
    ids = {id_ for _, attributes in parsed(found).elements if (id_ := attributes.get("id"))}
    referred = set(re.findall(r'(?:href="|url\()#([\w-]+)', found))
    assert referred <= ids
    assert all(id_.startswith("mine-") for id_ in ids)


def test_letters_that_matplotlib_lacks_are_the_browsers() -> None:
    """Names are written literally and without a warning, even if they look like mathematics."""
    name = "漢 🎉 $x_1$ <b>"
    assert name in texts(draw_amounts([Row(name, near(0.01))]))


def test_times_of_nothing_are_drawn() -> None:
    """A loader that took no time is drawn."""
    assert draw_amounts([Row("a", Interval(0.0, 0.0, 0.0, 3))])
    assert draw_distributions([0.0] * 101, [0.0] * 101)
    assert draw_timeline(build_timeline((StepTimes(0.0, 0.0, 0.0, 0.0, 0.0),)))
    idle = [replace(stage, s_per_batch=0.0, cpu_s_per_batch=0.0) for stage in findings("a").stages]
    assert draw_stage_bars(idle, None)


def test_a_hostile_name_is_a_name() -> None:
    """A hostile name is escaped in a drawing."""
    found = draw_stage_bars(
        findings(HOSTILE.replace("\x07", "").replace("\ud800", "")).stages, None
    )
    assert not parsed(inline_svg(found, "a-", "title")).named("img")
