"""The table of watched processes, and the line of a window."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final

from rich.table import Table

from netpipe.reporting.tables import TerminalTable
from netpipe.results.units import (
    format_megabytes,
    format_percent,
    format_seconds,
)
from netpipe.watching.processes import Process
from netpipe.watching.window import Window

_BARS: Final = "▁▂▃▄▅▆▇█"
_DRAWN_WINDOWS: Final = 12


def training_table(
    processes: Sequence[Process],
    windows: Mapping[str, Iterable[Window]],
    ended: Collection[str],
    now_s: float,
) -> Table:
    """Return a table with a row for each process; `ended` has those known to have ended."""
    table = TerminalTable(
        "training, the latest windows", "process", "step", "waits", "idle", "longest wait",
        "memory", "windows", "verdict",
    )  # fmt: skip
    table.padding = (0, 1, 0, 0)  # so that it fits into 80 columns
    for each in processes:
        latest, figures = each.latest, each.figures
        exposed = figures.exposed_fraction
        at = datetime.fromtimestamp(latest.ended_s)
        silent = f", silent since {at:%d %b %H:%M}" * each.is_silent(now_s)
        table.add_row(
            each.name,
            "-" if figures.step_s is None else format_seconds(figures.step_s),
            format_percent(figures.waiting_fraction),
            "-" if exposed is None else format_percent(exposed.median),
            "-" if figures.wait_s is None else format_seconds(figures.wait_s.longest),
            format_megabytes(latest.memory_bytes),
            draw_bars([*windows[each.name]][-_DRAWN_WINDOWS:]),
            f"{each.judged.kind}{', ended' if each.name in ended else silent}",
        )
    return table


def draw_bars(windows: Iterable[Window]) -> str:
    """Return a bar for each window: the time in which the device is idle, or the loop waits."""
    return "".join(
        _BARS[round((len(_BARS) - 1) * (exposed.median if exposed else figures.waiting_fraction))]
        for figures in (window.figures for window in windows)
        for exposed in [figures.exposed_fraction]
    )


def window_line(name: str, window: Window) -> str:
    """Return a window as one line of text."""
    at = datetime.fromtimestamp(window.ended_s).strftime("%H:%M:%S")
    taken = window.batches_before + window.figures.batches
    return f"{at} {name}: {taken} batches; {window.verdict.kind}: {window.verdict.message}"
