"""The stages of a loader: what each takes, and where it stands in the user's code."""

from collections.abc import Iterator
from typing import Final

from netpipe.diagnosis.diagnosis import Findings, Stage
from netpipe.page.content import Card, Cell, Drawing, Pair, Table, head_columns
from netpipe.page.formatting import format_bounds, format_whole_percent
from netpipe.page.plots.stage_bars import draw_stage_bars
from netpipe.results.units import format_seconds

_MAX_DRAWN: Final = 10
# As a fraction of a batch's time; a shorter bar cannot be seen.
_MIN_DRAWN_FRACTION: Final = 0.005
_SECTIONS: Final = {"workers": "workers", "threads": "threads", "trainer": "training process"}


def build_stage_cards(findings: Findings) -> Iterator[Card]:
    """Yield the stages, the largest first; nothing if none is known."""
    if not findings.stages:
        return
    visible = [stage for stage in findings.stages if stage.fraction >= _MIN_DRAWN_FRACTION]
    drawn = visible[:_MAX_DRAWN] or findings.stages[:1]
    caption = _write_caption(findings, hidden=len(findings.stages) - len(drawn))
    table = Table(
        "Stages",
        "Wall and CPU time in a single-thread run; each stage without those that it reads from.",
        head_columns("stage", "runs in", figures=("wall", "share", "CPU", "run without it")),
        tuple(_build_row(stage) for stage in findings.stages),
    )
    svg = draw_stage_bars(drawn, findings.bottleneck.stage)
    yield Pair(Drawing("What each stage takes", svg, caption), table)


def _write_caption(findings: Findings, hidden: int) -> str:
    rebuilt = ", rebuilt without workers and threads" if findings.lane == "rebuilt" else ""
    others = f" Smaller ones are in the table only: {hidden}." if hidden else ""
    return (
        f"A single-thread run of the loader{rebuilt} takes "
        f"{format_seconds(findings.lane_s_per_batch.median)} for a batch. Where the clock's bar is "
        f"longer than the CPU's, the stage waits. ▶ marks the bottleneck.{others}"
    )


def _build_row(stage: Stage) -> tuple[Cell, ...]:
    without = stage.without_s_per_batch
    places = " · ".join(filter(None, (stage.function, stage.made_at)))
    sampled = ", by samples" if stage.by == "sampling" else ""
    removed = (
        Cell(format_seconds(without.median), note=format_bounds(without))
        if without
        else Cell("not tried")
    )
    return (
        Cell(stage.name, note=places, is_code=True),
        Cell(_SECTIONS[stage.section]),
        Cell(f"{format_seconds(stage.s_per_batch)}{sampled}"),
        Cell(format_whole_percent(stage.fraction)),
        Cell(format_seconds(stage.cpu_s_per_batch)),
        removed,
    )
