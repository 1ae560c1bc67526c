"""Some steps of the real loop: what the loop does, what the device does, and who waits for whom."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from netpipe.page.plots.canvas import Ink, axes_in, drawn, rule_at_ticks, write
from netpipe.page.plots.scales import label_seconds
from netpipe.page.wording import whole_percent
from netpipe.results.step_times import StepTimes
from netpipe.results.units import format_seconds

_HEIGHT: Final = 236.0
_LANE: Final = 0.62  # height, where lanes are 1 apart
_HOST, _DEVICE = 1.28, 0.0
_HATCH: Final = "////"
_IDLE_WORTH_A_MARK: Final = 0.002  # of the whole width; less is not to be seen


@dataclass(frozen=True)
class Span:
    """A stretch of time."""

    begin_s: float
    end_s: float

    @property
    def length_s(self) -> float:
        """How long it is."""
        return self.end_s - self.begin_s


@dataclass(frozen=True)
class Timeline:
    """The same steps as stretches of time.

    Attributes:
        waiting: The loop waits for a batch.
        calling: It calls the step.
        working: The device works.
        idle: It has nothing to do, between two steps of these.
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
        """Share of that in which the device has nothing to do: the stall fraction of the steps."""
        return _sum_s(self.idle) / self.device_s if self.device_s else 0.0

    @property
    def waiting_fraction(self) -> float:
        """Share of the loop's time in which it waits for a batch."""
        loop_s = self.calling[-1].end_s - self.waiting[0].begin_s
        return _sum_s(self.waiting) / loop_s if loop_s else 0.0


def build_timeline(steps: tuple[StepTimes, ...]) -> Timeline:
    """Tell from the times of steps, one at least, what the loop and the device did when.

    A document that does not say when the device began a step is an older one: it did when the
    step before was done, at the earliest when the batch was there.
    """
    working: list[Span] = []
    for one in steps:
        before_s = working[-1].end_s if working else one.given_s
        begin_s = max(before_s, one.given_s) if one.began_s is None else one.began_s
        working.append(Span(begin_s, max(begin_s, one.done_s)))
    gaps = (Span(before.end_s, after.begin_s) for before, after in pairwise(working))
    return Timeline(
        waiting=tuple(Span(one.asked_s, one.given_s) for one in steps),
        calling=tuple(Span(one.given_s, one.dispatched_s) for one in steps),
        working=tuple(working),
        idle=tuple(one for one in gaps if one.length_s > 0),
    )


def draw_timeline(found: Timeline) -> str:
    """Draw the loop's lane above the device's, idle time of the device marked."""

    def draw(figure: Figure) -> None:
        axes = axes_in(figure, left=8, top=34, right=14, bottom=64)
        end_s = max(found.calling[-1].end_s, found.working[-1].end_s) or 1.0
        axes.set_xlim(0, end_s)
        axes.set_ylim(-_LANE / 2 - 0.08, _HOST + _LANE / 2)
        label_seconds(axes)
        rule_at_ticks(axes)
        _bars(axes, found.waiting, _HOST, facecolor=Ink.LOAD)
        _bars(axes, found.calling, _HOST, facecolor=Ink.TEXT)
        _bars(axes, found.working, _DEVICE, facecolor=Ink.DEVICE)
        worth = [one for one in found.idle if one.length_s > _IDLE_WORTH_A_MARK * end_s]
        _bars(axes, worth, _DEVICE, facecolor="none", edgecolor=Ink.IDLE, hatch=_HATCH)
        write(axes, 0, _HOST + _LANE / 2 + 0.22, "Training loop, on the host", fontweight="bold")
        write(axes, 0, _DEVICE + _LANE / 2 + 0.22, "Device", fontweight="bold")
        _legend(figure)

    return drawn(draw, _HEIGHT)


def write_caption(found: Timeline, *, is_exact: bool) -> str:
    """Say what is to be seen.

    Args:
        found: The steps.
        is_exact: The device itself says when a step was done; the host sees it late where the loop
            holds Python's lock, so that the device seems to work for longer.
    """
    idle, waiting = found.idle_fraction, found.waiting_fraction
    return (
        f"The last {len(found.working)} steps of the last round. From the end of the first to that "
        f"of the last, {format_seconds(found.device_s)}, the device has nothing to do for "
        f"{'' if is_exact else 'at least '}{whole_percent(idle)} of the time; the loop waits for "
        f"batches {whole_percent(waiting)} of its own."
    )


def _bars(axes: Axes, spans: tuple[Span, ...] | list[Span], y: float, **looks: str) -> None:
    style: dict[str, Any] = {"edgecolor": Ink.PAPER, "linewidth": 0.7} | looks
    for one in spans:
        corner = (one.begin_s, y - _LANE / 2)
        axes.add_patch(Rectangle(corner, one.length_s, _LANE, **style))


def _legend(figure: Figure) -> None:
    entries: tuple[tuple[dict[str, Any], str], ...] = (
        ({"facecolor": Ink.LOAD}, "waits for a batch"),
        ({"facecolor": Ink.TEXT}, "calls the step"),
        ({"facecolor": Ink.DEVICE}, "works"),
        ({"facecolor": "none", "edgecolor": Ink.IDLE, "hatch": _HATCH}, "idle"),
    )
    handles = [Rectangle((0, 0), 1, 1, **look) for look, _ in entries]
    legend = figure.legend(
        handles, [text for _, text in entries], loc="lower left", bbox_to_anchor=(0.0, -0.02),
        ncols=4, frameon=False, fontsize=12, handlelength=1.1, handleheight=1.0,
        handletextpad=0.45, columnspacing=0.9, borderpad=0.2,
    )  # fmt: skip
    for text in legend.get_texts():
        text.set_color(Ink.TEXT)


def _sum_s(spans: tuple[Span, ...]) -> float:
    return sum(one.length_s for one in spans)
