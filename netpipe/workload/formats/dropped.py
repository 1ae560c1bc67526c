"""Rows that were left out because a value in them is invalid: how many, why, and one example."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from netpipe.results.fields import Count, PositiveCount


@dataclass(frozen=True)
class Dropped:
    """Rows that one constraint on a column excluded.

    Attributes:
        constraint: What the values had to, following "must".
        rows: How many rows; one with several invalid values counts once.
        file: The file of the first such row.
        row: Its number in that file, counted from 0.
        value: Its value in that column.
    """

    column: str
    constraint: str
    rows: PositiveCount
    file: str
    row: Count
    value: str


class DroppedRows:
    """Counts dropped rows by column and constraint; the first example of each is kept."""

    def __init__(self, some: Iterable[Dropped] = ()) -> None:
        self._found: dict[tuple[str, str], Dropped] = {}
        for dropped in some:
            self.add(**vars(dropped))

    def add(self, column: str, constraint: str, rows: int, file: str, row: int, value: str) -> None:
        """Count some rows; the example is that of the first call for this column and constraint."""
        key = column, constraint
        before = self._found.get(key, Dropped(column, constraint, 0, file, row, value))
        self._found[key] = replace(before, rows=before.rows + rows)

    def counts(self) -> tuple[Dropped, ...]:
        """Return what was dropped, in order of the names."""
        return tuple(self._found[key] for key in sorted(self._found))
