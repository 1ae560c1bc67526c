"""Some steps of the real loop: what the loop and the device do, and who waits for whom."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from netpipe.page.formatting import format_whole_percent
from netpipe.page.plots.canvas import (
    Ink,
    add_axes,
    add_legend,
    draw_grid,
    label_values,
    render_svg,
    write_text,
)
from netpipe.results.step_times import StepTimes
from netpipe.results.units import format_seconds

_HEIGHT: Final = 236.0
_BAR_HEIGHT: Final = 0.62
_HOST_Y, _DEVICE_Y = 1.28, 0.0
_IDLE: Final[dict[str, Any]] = {"facecolor": "none", "edgecolor": Ink.IDLE, "hatch": "////"}
# As a fraction of the whole width; a shorter mark cannot be seen.
_MIN_DRAWN_IDLE: Final = 0.002


@dataclass(frozen=True)
class Span:
    """A stretch of time."""

    begin_s: float
    end_s: float

    @property
    def length_s(self) -> float:
        """Its duration."""
        return self.end_s - self.begin_s


@dataclass(frozen=True)
class Timeline:
    """What the loop and the device do during the same steps.

    Attributes:
        waiting: The loop waits for a batch.
        calling: The loop calls the step.
        working: The device works.
        idle: The device has nothing to do between two of the steps.
    """

    waiting: tuple[Span, ...]
    calling: tuple[Span, ...]
    working: tuple[Span, ...]
    idle: tuple[Span, ...]

    @property
    def device_s(self) -> float:
        """Seconds from the end of the device's first step to the end of its last."""
        return self.working[-1].end_s - self.working[0].end_s

    @property
    def idle_fraction(self) -> float:
        """Idle share of the device's time: the stall fraction of these steps."""
        return _sum_s(self.idle) / self.device_s if self.device_s else 0.0

    @property
    def waiting_fraction(self) -> float:
        """Share of the loop's time in which it waits for a batch."""
        loop_s = self.calling[-1].end_s - self.waiting[0].begin_s
        return _sum_s(self.waiting) / loop_s if loop_s else 0.0


def build_timeline(steps: tuple[StepTimes, ...]) -> Timeline:
    """Return what the loop and the device did when; at least one step.

    Older documents do not say when the device began a step: it did when the step before was done,
    at the earliest when the batch was there.
    """
    working: list[Span] = []
    for step in steps:
        before_s = working[-1].end_s if working else step.given_s
        begin_s = max(before_s, step.given_s) if step.began_s is None else step.began_s
        working.append(Span(begin_s, max(begin_s, step.done_s)))
    gaps = (Span(before.end_s, after.begin_s) for before, after in pairwise(working))
    return Timeline(
        waiting=tuple(Span(step.asked_s, step.given_s) for step in steps),
        calling=tuple(Span(step.given_s, step.dispatched_s) for step in steps),
        working=tuple(working),
        idle=tuple(gap for gap in gaps if gap.length_s > 0),
    )


def draw_timeline(timeline: Timeline) -> str:
    """Draw the loop's spans above the device's, with the device's idle time marked."""
    legend = {
        "waits for a batch": {"facecolor": Ink.LOAD},
        "calls the step": {"facecolor": Ink.TEXT},
        "works": {"facecolor": Ink.DEVICE},
        "idle": _IDLE,
    }

    def draw(figure: Figure) -> None:
        axes = add_axes(figure, left=8, top=34, right=14, bottom=64)
        end_s = max(timeline.calling[-1].end_s, timeline.working[-1].end_s) or 1.0
        axes.set_xlim(0, end_s)
        axes.set_ylim(-_BAR_HEIGHT / 2 - 0.08, _HOST_Y + _BAR_HEIGHT / 2)
        label_values(axes)
        draw_grid(axes)
        idle = [gap for gap in timeline.idle if gap.length_s > _MIN_DRAWN_IDLE * end_s]
        spans = (timeline.waiting, timeline.calling, timeline.working, idle)
        heights = (_HOST_Y, _HOST_Y, _DEVICE_Y, _DEVICE_Y)
        for y, drawn, style in zip(heights, spans, legend.values(), strict=True):
            _draw_spans(axes, drawn, y, style)
        for y, name in ((_HOST_Y, "Training loop, on the host"), (_DEVICE_Y, "Device")):
            write_text(axes, 0, y + _BAR_HEIGHT / 2 + 0.22, name, fontweight="bold")
        add_legend(figure, legend, loc="lower left", bbox_to_anchor=(0.0, -0.02))

    return render_svg(draw, _HEIGHT)


def write_caption(timeline: Timeline, *, is_exact: bool) -> str:
    """Describe the timeline by its waiting and idle shares.

    Args:
        timeline: The steps.
        is_exact: The device itself says when a step was done. The host sees it late where the loop
            holds Python's lock, so that the device seems to work for longer.
    """
    bound = "" if is_exact else "at least "
    return (
        f"The last {len(timeline.working)} steps of the last round. From the end of the first to "
        f"the end of the last, {format_seconds(timeline.device_s)}, the device has nothing to do "
        f"for {bound}{format_whole_percent(timeline.idle_fraction)} of the time; the loop waits "
        f"for batches {format_whole_percent(timeline.waiting_fraction)} of its own time."
    )


def _draw_spans(axes: Axes, spans: Sequence[Span], y: float, style: dict[str, Any]) -> None:
    for span in spans:
        corner = (span.begin_s, y - _BAR_HEIGHT / 2)
        look: dict[str, Any] = {"edgecolor": Ink.PAPER, "linewidth": 0.7} | style
        axes.add_patch(Rectangle(corner, span.length_s, _BAR_HEIGHT, **look))


def _sum_s(spans: tuple[Span, ...]) -> float:
    return sum(span.length_s for span in spans)
