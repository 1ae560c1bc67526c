"""Rows that were dropped because of an invalid value: how many, why, and one example."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from netpipe.results.fields import Count, PositiveCount


@dataclass(frozen=True)
class Dropped:
    """Rows that one constraint on a column excluded, and the first of them.

    Attributes:
        constraint: The constraint on the values, to follow "must".
        rows: Number of rows; one with several invalid values counts once.
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


def join_dropped(found: Iterable[Dropped]) -> tuple[Dropped, ...]:
    """Add up the rows by column and constraint, in order of the names; keep the first examples."""
    joined: dict[tuple[str, str], Dropped] = {}
    for each in found:
        key = each.column, each.constraint
        rows = each.rows + (joined[key].rows if key in joined else 0)
        joined[key] = replace(joined.get(key, each), rows=rows)
    return tuple(joined[key] for key in sorted(joined))
