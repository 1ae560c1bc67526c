"""The table that shows two baselines side by side."""

from rich.table import Table

from netpipe.gate.baseline_changes import BaselineDifference
from netpipe.reporting.tables import TerminalTable
from netpipe.results.units import format_metric


def change_table(difference: BaselineDifference, title: str = "baseline changed") -> Table:
    """Return a table with one row for each figure of two baselines."""
    table = TerminalTable(title, "figure", "before", "after", "after / before")
    for name, change in difference.figures.items():
        ratio = "" if change.ratio is None else f"{change.ratio:.2f} x"
        before, after = format_metric(name, change.before), format_metric(name, change.after)
        table.add_row(name, before, after, ratio)
    return table
