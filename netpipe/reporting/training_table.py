"""The table of watched processes, and the line of a window."""

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import Final

from rich.table import Table

from netpipe.reporting.tables import TerminalTable
from netpipe.results.units import format_bytes, format_percent, format_seconds
from netpipe.watching.processes import find_memory_growth
from netpipe.watching.window import Window

_BARS: Final = "▁▂▃▄▅▆▇█"
_DRAWN_WINDOWS: Final = 12


def training_table(
    processes: Mapping[str, Window],
    windows: Mapping[str, Iterable[Window]],
    ended: Collection[str] = (),
    now_s: float = 0.0,
) -> Table:
    """Return a table with a row for each process, and its windows as bars of idle time."""
    table = TerminalTable(
        "training", "process", "step", "waits", "idle", "longest wait", "memory", "windows",
        "verdict",
    )  # fmt: skip
    table.padding = (0, 1, 0, 0)  # so that it fits into 80 columns
    for name, window in processes.items():
        figures = window.figures
        at = datetime.fromtimestamp(window.ended_s)
        silent = f", silent since {at:%d %b %H:%M}" * window.is_silent(now_s)
        table.add_row(
            name,
            "-" if figures.step_s is None else format_seconds(figures.step_s),
            format_percent(figures.waiting_fraction),
            "-" if figures.exposed_fraction is None else format_percent(window.idle[0]),
            "-" if figures.wait_s is None else format_seconds(figures.wait_s.longest),
            format_bytes(window.memory_bytes),
            "".join(_BARS[round(7 * each.idle[0])] for each in [*windows[name]][-_DRAWN_WINDOWS:]),
            f"{window.verdict.kind}{', ended' if name in ended else silent}",
        )
    return table


def growth_lines(windows: Mapping[str, Iterable[Window]]) -> dict[str, str]:
    """Return a sentence for each process whose memory keeps growing."""
    return {
        name: f"the memory of {name} grows by {format_bytes(growth)} an hour"
        for name, each in windows.items()
        if (growth := find_memory_growth([*each]))
    }


def window_line(name: str, window: Window) -> str:
    """Return a window as one line of text."""
    at = datetime.fromtimestamp(window.ended_s).strftime("%H:%M:%S")
    taken = window.batches_before + window.figures.batches
    return f"{at} {name}: {taken} batches; {window.verdict.kind}: {window.verdict.message}"
