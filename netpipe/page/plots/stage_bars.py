"""What each stage of a loader takes, by the clock and of a CPU."""

from collections.abc import Sequence
from typing import Any, Final

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from netpipe.diagnosis.diagnosis import Stage
from netpipe.linting.picture.visible_graph import shorten_middle
from netpipe.page.plots.canvas import SMALL, Ink, axes_in, drawn, rule_at_ticks, write
from netpipe.page.plots.scales import label_seconds
from netpipe.page.wording import whole_percent, without_modules
from netpipe.results.units import format_seconds

_ROW: Final = 52.0
_AROUND: Final = 66.0
_COLUMNS: Final = 26
_WALL, _CPU = 0.24, 0.14  # heights


def stage_bars(stages: Sequence[Stage], bottleneck: str | None) -> str:
    """Draw two bars for each of some stages, the bottleneck in a colour and by a word."""
    most_s = max(max(one.s_per_batch, one.cpu_s_per_batch) for one in stages) or 1.0

    def draw(figure: Figure) -> None:
        axes = axes_in(figure, left=16, top=30, right=24, bottom=34)
        axes.set_xlim(0, most_s)
        axes.set_ylim(len(stages) - 0.5, -0.5)
        label_seconds(axes)
        rule_at_ticks(axes)
        for number, stage in enumerate(stages):
            _row(axes, number, stage, is_bottleneck=stage.name == bottleneck)
        _legend(figure)

    return drawn(draw, _ROW * len(stages) + _AROUND)


def _row(axes: Axes, number: int, stage: Stage, *, is_bottleneck: bool) -> None:
    ink = Ink.LOAD if is_bottleneck else Ink.PALE
    axes.barh(number + 0.1, stage.s_per_batch, _WALL, color=ink)
    axes.barh(number + 0.32, stage.cpu_s_per_batch, _CPU, facecolor="none", edgecolor=Ink.TEXT,
              hatch="/////", linewidth=0.8)  # fmt: skip
    place: dict[str, Any] = {"transform": axes.get_yaxis_transform()}
    mark = "▶ " if is_bottleneck else ""
    weight = "bold" if is_bottleneck else "normal"
    name = f"{mark}{shorten_middle(without_modules(stage.name), _COLUMNS)}"
    write(axes, 0, number - 0.2, name, fontweight=weight, **place)
    value = f"{format_seconds(stage.s_per_batch)}, {whole_percent(stage.fraction)}"
    write(axes, 1, number - 0.2, value, fontweight=weight, ha="right", **place)


def _legend(figure: Figure) -> None:
    handles = [
        Rectangle((0, 0), 1, 1, facecolor=Ink.PALE),
        Rectangle((0, 0), 1, 1, facecolor="none", edgecolor=Ink.TEXT, hatch="/////"),
    ]
    legend = figure.legend(
        handles, ["by the clock", "of a CPU"], loc="upper left", ncols=2, frameon=False,
        fontsize=SMALL, handlelength=1.1, handleheight=0.9, borderpad=0.2,
    )  # fmt: skip
    for text in legend.get_texts():
        text.set_color(Ink.TEXT)
