"""The stages of a loader: what each takes, and where it stands in the user's code."""

from collections.abc import Iterator
from typing import Final

from netpipe.diagnosis.diagnosis import Findings, Stage
from netpipe.page.content import Card, Cell, Column, Drawing, Pair, Table
from netpipe.page.plots.stage_bars import stage_bars
from netpipe.page.wording import bounds, whole_percent
from netpipe.results.units import format_seconds

_MOST_DRAWN: Final = 10
_LEAST_DRAWN: Final = 0.005  # of the lane; less is a bar that cannot be seen
_SECTIONS: Final = {"workers": "workers", "threads": "threads", "trainer": "training process"}


def stage_cards(found: Findings) -> Iterator[Card]:
    """Give what is shown of the stages, the largest first; nothing where none is known."""
    if not found.stages:
        return
    worth = [one for one in found.stages if one.fraction >= _LEAST_DRAWN]
    shown = worth[:_MOST_DRAWN] or found.stages[:1]
    drawn = stage_bars(shown, found.bottleneck.stage)
    caption = _caption(found, hidden=len(found.stages) - len(shown))
    yield Pair(Drawing("What each stage takes", drawn, caption), _table(found))


def _table(found: Findings) -> Table:
    return Table(
        "Stages",
        "Wall and CPU time of one lane; a stage alone, without those it reads from.",
        (Column("stage"), Column("runs in"), *(Column(name, is_figure=True) for name in
         ("wall", "share", "CPU", "the lane without it"))),
        tuple(_row(one) for one in found.stages),
    )  # fmt: skip


def _caption(found: Findings, hidden: int) -> str:
    lane = "rebuilt without workers and threads" if found.lane == "rebuilt" else "as it is"
    others = f" Smaller ones are in the table only: {hidden}." if hidden else ""
    return (
        f"A batch in one lane, the loader {lane}: {format_seconds(found.lane_s_per_batch.median)}. "
        "Where the clock's bar is longer than the CPU's, the stage waits. "
        f"▶ marks the bottleneck.{others}"
    )


def _row(stage: Stage) -> tuple[Cell, ...]:
    without = stage.without_s_per_batch
    places = " · ".join(filter(None, (stage.function, stage.made_at)))
    sampled = ", by samples" if stage.by == "sampling" else ""
    return (
        Cell(stage.name, note=places, is_code=True),
        Cell(_SECTIONS[stage.section]),
        Cell(f"{format_seconds(stage.s_per_batch)}{sampled}"),
        Cell(whole_percent(stage.fraction)),
        Cell(format_seconds(stage.cpu_s_per_batch)),
        Cell(format_seconds(without.median), note=bounds(without))
        if without
        else Cell("not tried"),
    )
