"""The table of loaders' speeds, and the lines below it."""

from collections.abc import Callable, Iterator, Sequence
from math import isfinite
from typing import Final

from rich.table import Table

from netpipe.reporting.tables import TerminalTable
from netpipe.results.measurement import Interval
from netpipe.results.units import (
    format_amount,
    format_bytes,
    format_number,
    format_percent,
    format_seconds,
    scale_of,
)
from netpipe.throughput.document import Throughput
from netpipe.throughput.figures import Tally, over_rounds, ratio, speed_figure

_OTHER: Final = "other"
_MARK: Final = " *"


def throughput_table(found: Throughput) -> Table:
    """Return a table of the combinations, the best one marked, with ratios to another loader."""
    has_tokens = any(speed_figure(runs) == "tokens_per_s" for runs in found.runs)
    columns = TOKEN_COLUMNS if has_tokens else EXAMPLE_COLUMNS
    table = TerminalTable("loader speed", "batch", "workers", *columns)
    # With the default padding, ten columns do not fit.
    table.padding = (0, 1, 0, 0)
    for index, (combination, runs) in enumerate(zip(found.combinations, found.runs, strict=True)):
        mark, style = (_MARK, "bold") if index == found.best else ("", "")
        size = combination.batch_size or round(runs[0].examples / runs[0].batches)
        workers = "own" if combination.workers is None else str(combination.workers)
        table.add_row(f"{size}{mark}", workers, *_cells(runs, columns), style=style)
        if found.against is not None:
            other_runs = found.against.runs[index]
            table.add_row("", f"/ {_OTHER}", *_ratio_cells(runs, other_runs, columns))
    if found.against is not None:
        table.add_row(_OTHER, "", *_cells(found.against.all_runs, columns))
    return table


def remarks(found: Throughput) -> Iterator[str]:
    """Yield lines that explain the marks in the table and the chosen number of workers."""
    if len(found.combinations) > 1:
        counted = speed_figure(found.runs[0]).partition("_")[0]
        fastest = found.combinations[found.best].label
        yield f"{_MARK.strip()} most {counted} per second: {fastest}"
    if found.against is not None:
        counted_by = found.against.all_runs[0].counted_by
        yield f"{_OTHER}: {found.against.target}; its tokens are {counted_by}"
    if found.choice is not None:
        workers, buffer = found.choice.workers, found.choice.buffer
        yield found.choice.reason
        if found.data is None:
            yield "To keep that, where the loader is made (torch calls the second prefetch_factor):"
            yield f"num_workers={workers}, per_worker_buffer_size={buffer}"
        else:
            yield "To keep that, in the configuration file:"
            yield f"[pipeline]\nworkers = {workers}\nworker_buffer_batches = {buffer}"


def _cells(runs: Sequence[Tally], columns: "Columns") -> Iterator[str]:
    for name, format_median in columns.values():
        figure = over_rounds(name, runs)
        yield format_median(figure.median) + _bounds(name, figure, scale_of(figure.median)[0])


def _ratio_cells(
    runs: Sequence[Tally], other_runs: Sequence[Tally], columns: "Columns"
) -> Iterator[str]:
    for name, _ in columns.values():
        relative = ratio(name, runs, other_runs)
        yield f"{format_number(relative.median)} x{_bounds(name, relative)}" if relative else "-"


def _bounds(name: str, interval: Interval, scale: float = 1.0) -> str:
    """Format an interval's bounds in the median's unit; "" if infinite or not shown."""
    if name not in _WITH_BOUNDS or not isfinite(interval.high):
        return ""
    return f" ({format_number(interval.low / scale)}-{format_number(interval.high / scale)})"


Columns = dict[str, tuple[str, Callable[[float], str]]]
_WITH_BOUNDS: Final = ("tokens_per_s", "tokens_per_cpu_s", "examples_per_s", "examples_per_cpu_s")
_COLUMNS: Final[Columns] = {
    "PSS": ("peak_pss_bytes", format_bytes),
    "1st batch": ("first_batch_s", format_seconds),
}
EXAMPLE_COLUMNS: Final[Columns] = {
    "examples/s": ("examples_per_s", format_amount),
    "examples/CPU s": ("examples_per_cpu_s", format_amount),
    "batches/s": ("batches_per_s", format_amount),
} | _COLUMNS
TOKEN_COLUMNS: Final[Columns] = {
    "tokens/s": ("tokens_per_s", format_amount),
    "tokens/CPU s": ("tokens_per_cpu_s", format_amount),
    "batches/s": ("batches_per_s", format_amount),
    "padding": ("padding_fraction", format_percent),
    "worst": ("padding_fraction_worst_batch", format_percent),
    "B/token": ("bytes_read_per_token", format_amount),
} | _COLUMNS
"""The figure behind each heading, and its format."""
