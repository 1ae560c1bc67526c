"""Rows that were left out because a value in them is invalid: how many, why, and one example."""

from collections.abc import Iterable
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Dropped:
    """Rows that one constraint on a column excluded, and the first of them.

    `constraint` follows "must"; `row` counts from 0 in `file`; `value` is that of the column.
    """

    column: str
    constraint: str
    rows: int
    file: str
    row: int
    value: str


def join_dropped(found: Iterable[Dropped]) -> tuple[Dropped, ...]:
    """Add up the rows by column and constraint, in order of the names; keep the first examples."""
    joined: dict[tuple[str, str], Dropped] = {}
    for each in found:
        key = each.column, each.constraint
        rows = each.rows + (joined[key].rows if key in joined else 0)
        joined[key] = replace(joined.get(key, each), rows=rows)
    return tuple(joined[key] for key in sorted(joined))
