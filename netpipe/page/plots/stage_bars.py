"""The wall time and the CPU time of each stage of a loader."""

from collections.abc import Sequence
from typing import Any, Final

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from netpipe.diagnosis.diagnosis import Stage
from netpipe.linting.picture.visible_graph import shorten_middle
from netpipe.page.formatting import format_whole_percent, strip_modules
from netpipe.page.plots.canvas import (
    Ink,
    add_axes,
    add_legend,
    draw_grid,
    label_values,
    render_svg,
    write_text,
)
from netpipe.results.units import format_seconds

_ROW_HEIGHT: Final = 52.0
_MARGINS: Final = 66.0
_MAX_NAME_COLUMNS: Final = 26
_CPU_BAR: Final[dict[str, Any]] = {"facecolor": "none", "edgecolor": Ink.TEXT, "hatch": "/////"}


def draw_stage_bars(stages: Sequence[Stage], bottleneck: str | None) -> str:
    """Draw two bars for each stage, at least one; a colour and a sign mark the bottleneck."""
    end_s = max(max(stage.s_per_batch, stage.cpu_s_per_batch) for stage in stages) or 1.0

    def draw(figure: Figure) -> None:
        axes = add_axes(figure, left=16, top=30, right=24, bottom=34)
        axes.set_xlim(0, end_s)
        axes.set_ylim(len(stages) - 0.5, -0.5)
        label_values(axes)
        draw_grid(axes)
        for index, stage in enumerate(stages):
            _draw_stage(axes, index, stage, is_bottleneck=stage.name == bottleneck)
        legend = {"by the clock": {"facecolor": Ink.PALE}, "of a CPU": _CPU_BAR}
        add_legend(figure, legend, loc="upper left")

    return render_svg(draw, _ROW_HEIGHT * len(stages) + _MARGINS)


def _draw_stage(axes: Axes, index: int, stage: Stage, *, is_bottleneck: bool) -> None:
    ink, weight, sign = (Ink.LOAD, "bold", "▶ ") if is_bottleneck else (Ink.PALE, "normal", "")
    axes.barh(index + 0.1, stage.s_per_batch, height=0.24, color=ink)
    axes.barh(index + 0.32, stage.cpu_s_per_batch, height=0.14, linewidth=0.8, **_CPU_BAR)
    style: dict[str, Any] = {"transform": axes.get_yaxis_transform(), "fontweight": weight}
    name = f"{sign}{shorten_middle(strip_modules(stage.name), _MAX_NAME_COLUMNS)}"
    write_text(axes, 0, index - 0.2, name, **style)
    value = f"{format_seconds(stage.s_per_batch)}, {format_whole_percent(stage.fraction)}"
    write_text(axes, 1, index - 0.2, value, ha="right", **style)
