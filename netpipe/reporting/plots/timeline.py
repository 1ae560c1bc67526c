"""Drawings of the real loop's steps: a timeline of some, and distributions of all."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from netpipe.reporting.plots.canvas import (
    SMALL,
    Ink,
    add_axes,
    add_legend,
    as_svg,
    label_values,
    write_text,
)
from netpipe.results.step_times import StepTimes
from netpipe.results.units import format_bytes, format_number, format_percent, format_seconds
from netpipe.watching.window import Window

_BAR_HEIGHT: Final = 0.62
_HOST_Y, _DEVICE_Y = 1.28, 0.0
_BARS: Final[Mapping[str, dict[str, Any]]] = {
    "waits for a batch": {"facecolor": Ink.LOAD},
    "calls the step": {"facecolor": Ink.TEXT},
    "works": {"facecolor": Ink.DEVICE},
    "idle": {"facecolor": "none", "edgecolor": Ink.IDLE, "hatch": "////"},
}
# As a fraction of the whole width. Shorter marks would be invisible.
_MIN_DRAWN_IDLE: Final = 0.002

_TIME_UNITS: Final = ((86400, "days"), (3600, "h"), (60, "min"), (1, "s"))

_BINS: Final = 30
# The maximum may be a hundred times as large.
_MAX_DRAWN_PERCENTILE: Final = 99


class Span(NamedTuple):
    """A span of time, in seconds."""

    begin_s: float
    length_s: float


@dataclass(frozen=True)
class Timeline:
    """The times when the loop waits or calls the step, and when the device works or is idle."""

    waiting: tuple[Span, ...]
    calling: tuple[Span, ...]
    working: tuple[Span, ...]
    idle: tuple[Span, ...]
    device_s: float  #: Seconds from the end of the first step on the device to the end of the last.
    idle_fraction: float  #: The idle fraction of `device_s`: the stall fraction of these steps.
    waiting_fraction: float  #: The fraction of the loop's time that is spent waiting for batches.


def build_timeline(steps: tuple[StepTimes, ...]) -> Timeline:
    """Return the timeline of one or more steps."""
    ends_s = [max(step.began_s, step.done_s) for step in steps]
    gaps = (
        Span(end_s, after.began_s - end_s) for end_s, after in zip(ends_s, steps[1:], strict=False)
    )
    idle = tuple(gap for gap in gaps if gap.length_s > 0)
    waiting = tuple(Span(step.asked_s, step.given_s - step.asked_s) for step in steps)
    device_s, loop_s = ends_s[-1] - ends_s[0], steps[-1].dispatched_s - steps[0].asked_s
    return Timeline(
        waiting=waiting,
        calling=tuple(Span(step.given_s, step.dispatched_s - step.given_s) for step in steps),
        working=tuple(Span(step.began_s, max(0.0, step.done_s - step.began_s)) for step in steps),
        idle=idle,
        device_s=device_s,
        idle_fraction=sum(gap.length_s for gap in idle) / device_s if device_s else 0.0,
        waiting_fraction=sum(wait.length_s for wait in waiting) / loop_s if loop_s else 0.0,
    )


@as_svg
def draw_timeline(figure: Figure, timeline: Timeline) -> None:
    """Draw the spans of the loop above those of the device, with idle time marked."""
    axes = add_axes(figure, left=8, top=34, right=14, bottom=64, height=236)
    last = (timeline.calling[-1], timeline.working[-1])
    end_s = max(span.begin_s + span.length_s for span in last) or 1.0
    axes.set_xlim(0, end_s)
    axes.set_ylim(-_BAR_HEIGHT / 2 - 0.08, _HOST_Y + _BAR_HEIGHT / 2)
    label_values(axes)
    idle = [gap for gap in timeline.idle if gap.length_s > _MIN_DRAWN_IDLE * end_s]
    host = {"waits for a batch": timeline.waiting, "calls the step": timeline.calling}
    device = {"works": timeline.working, "idle": idle}
    _draw_spans(axes, _HOST_Y, "Training loop, on the host", host)
    _draw_spans(axes, _DEVICE_Y, "Device", device)
    add_legend(figure, _BARS, loc="lower left", bbox_to_anchor=(0.0, -0.02))


def _draw_spans(axes: Axes, y: float, name: str, bars: Mapping[str, Sequence[Span]]) -> None:
    write_text(axes, 0, y + _BAR_HEIGHT / 2 + 0.22, name, fontweight="bold")
    for label, spans in bars.items():
        style: dict[str, Any] = {"edgecolor": Ink.PAPER, "linewidth": 0.7} | _BARS[label]
        axes.broken_barh(spans, (y - _BAR_HEIGHT / 2, _BAR_HEIGHT), **style)


@as_svg
def draw_distributions(
    figure: Figure, train_step_s: Sequence[float], wait_s: Sequence[float]
) -> None:
    """Draw histograms of step times and waits, each given as the percentiles 0 to 100."""
    end_s = 1.12 * max(times[_MAX_DRAWN_PERCENTILE] for times in (train_step_s, wait_s)) or 1.0
    upper = add_axes(figure, left=16, top=28, right=24, bottom=168, height=292)
    lower = add_axes(figure, left=16, top=162, right=24, bottom=34, height=292)
    _draw_panel(upper, train_step_s, end_s, Ink.DEVICE, "Step, end to end")
    _draw_panel(lower, wait_s, end_s, Ink.LOAD, "Wait for a batch")
    upper.set_xticklabels([])


def _draw_panel(
    axes: Axes, percentiles: Sequence[float], end_s: float, ink: Ink, name: str
) -> None:
    weights = [1 / len(percentiles)] * len(percentiles)
    fractions, *_ = axes.hist(percentiles, bins=_BINS, range=(0, end_s), weights=weights, color=ink,
                              edgecolor=Ink.PAPER, linewidth=0.8)  # fmt: skip
    tallest = float(max(fractions))
    axes.set_xlim(0, end_s)
    axes.set_ylim(0, 1.28 * tallest)
    label_values(axes)
    _write_title(axes, f"{name}; tallest bar {tallest:.0%} of the steps")
    median_s, height = percentiles[50], 1.2 * tallest
    axes.plot((median_s, median_s), (0, 0.93 * height), color=Ink.TEXT, linewidth=1.4)
    align = "right" if median_s > end_s / 2 else "left"
    write_text(axes, median_s, height, f"median {format_seconds(median_s)}", ha=align)


@as_svg
def draw_run(figure: Figure, windows: Sequence[Window]) -> None:
    """Draw the windows of a run as bars: its waiting, its time for a batch, and its memory."""
    began_s = windows[0].ended_s - windows[0].figures.seconds
    length_s = max(windows[-1].ended_s - began_s, 2.0)
    scale_s, unit = next(each for each in _TIME_UNITS if length_s >= 2 * each[0])
    widths = [each.figures.seconds / scale_s for each in windows]
    ends = [(each.ended_s - began_s) / scale_s for each in windows]
    waits = [each.figures.waiting_fraction for each in windows]
    idle = [each.idle[0] if each.figures.exposed_fraction else 0.0 for each in windows]
    steps_s = [each.figures.step_s or 0.0 for each in windows]
    memory = [float(each.memory_bytes) for each in windows]
    panels: tuple[tuple[str, Callable[[float], str], Mapping[Ink, Sequence[float]]], ...] = (
        ("Waiting for data", format_percent, {Ink.PALE: waits, Ink.LOAD: idle}),
        ("From batch to batch", format_seconds, {Ink.DEVICE: steps_s}),
        ("Memory of all processes", format_bytes, {Ink.FAINT: memory}),
    )
    for place, (name, write, series) in enumerate(panels):
        top, bottom = 28 + 118 * place, 282 - 118 * place
        axes = add_axes(figure, left=16, top=top, right=24, bottom=bottom, height=390)
        for ink, values in series.items():
            axes.bar(ends, values, [-width for width in widths], align="edge", color=ink)
        most = max(map(max, series.values()))
        axes.set_xlim(0, length_s / scale_s)
        axes.set_ylim(0, 1.1 * most or 1.0)
        label_values(axes, lambda value: f"{format_number(value)} {unit}")
        axes.tick_params(labelbottom=place == len(panels) - 1)
        _write_title(axes, f"{name}; at most {write(most)}")
    bars = {"loop waits": {"facecolor": Ink.PALE}, "device idle": {"facecolor": Ink.LOAD}}
    add_legend(figure, bars, loc="lower left", bbox_to_anchor=(0.0, -0.02))


def _write_title(axes: Axes, title: str) -> None:
    axes.axhline(0, color=Ink.FAINT, linewidth=1)
    axes.set_title(title, loc="left", fontsize=SMALL, fontweight="bold", color=Ink.TEXT, pad=8)
