"""The table of counted work, and the notes below it."""

from collections import defaultdict

from netpipe.reporting.content import Note
from netpipe.reporting.tables import Cell, Figure, Table
from netpipe.results.work_profile import KINDS, WorkProfile


def work_table(profile: WorkProfile) -> Table:
    """Return a table with a row for each kind of work and for each of its largest parts."""
    rows = [
        {"kind": Cell(name), "part": Cell(part), "per batch": Figure(KINDS[name].format(count))}
        for name in profile.counts
        if profile.counts[name]
        for part, count in (("", profile.total(name)), *profile.largest_parts(name))
    ]
    caption = (
        f"Means over {profile.scope}. Counts are the same on a busy machine and on other machines."
    )
    return Table("Work per batch", caption, rows)


def work_notes(profile: WorkProfile) -> list[Note]:
    """Return notes on the arrays of a batch, and on kinds and parts that are not counted."""
    notes = [Note(name, shape) for name, shape in profile.arrays.items()]
    names_by_reason = defaultdict[str, list[str]](list)
    for name, why in profile.not_counted.items():
        names_by_reason[why].append(name)
    notes += [
        Note(", ".join(names), f"not counted: {why}") for why, names in names_by_reason.items()
    ]
    for name, parts in profile.dropped.items():
        write = KINDS[name].format
        ranges = ", ".join(
            f"{part or 'all'} ({write(low)} to {write(high)})"
            for part, (low, high) in parts.items()
        )
        notes.append(Note(name, f"differs between processes, dropped: {ranges}"))
    return notes
