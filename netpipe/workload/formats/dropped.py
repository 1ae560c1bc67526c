"""Rows that were dropped because of an invalid value: how many, why, and one example."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from netpipe.results.fields import Count, PositiveCount


@dataclass(frozen=True)
class Dropped:
    """The rows dropped because of one constraint on a column, with the first as an example.

    Attributes:
        constraint: The constraint on the values, worded to follow "must".
        rows: Number of rows; a row with several invalid values counts once.
        file: The file of the first such row.
        row: The number of that row in the file, counted from 0.
        value: The value of that row in the column.
    """

    column: str
    constraint: str
    rows: PositiveCount
    file: str
    row: Count
    value: str


def join_dropped(found: Iterable[Dropped]) -> tuple[Dropped, ...]:
    """Sum the rows by column and constraint, sorted by name; keep the first example of each."""
    joined: dict[tuple[str, str], Dropped] = {}
    for each in found:
        key = each.column, each.constraint
        rows = each.rows + (joined[key].rows if key in joined else 0)
        joined[key] = replace(joined.get(key, each), rows=rows)
    return tuple(joined[key] for key in sorted(joined))
