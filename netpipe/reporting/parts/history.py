"""The part of a history: the metrics of each test over commits, and where they changed."""

from collections.abc import Mapping, Sequence
from typing import Any

from netpipe.history.change_points import MIN_COMMITS
from netpipe.history.entries import Entry, Series, list_series
from netpipe.reporting.content import Drawing, Headline, Note, Notes, Part
from netpipe.reporting.plots.rows import draw_history
from netpipe.reporting.tones import Tone
from netpipe.results.fields import converter
from netpipe.results.units import format_count


def build_history_part(document: Mapping[str, Any]) -> Part:
    """Return the part of `netpipe.history/1` entries that hold at least one value."""
    entries = converter().structure(document["entries"], list[Entry])
    found = list_series(entries)
    notes = [
        Note(each.place, each.describe(*pair), Tone.BAD if each.is_worse(*pair) else Tone.GOOD)
        for each in found
        for pair in each.changes
    ]
    # The metrics that changed come first, those with other data or another host last.
    found.sort(key=lambda each: (each.has_ended, not each.changes))
    return Part(
        title=f"History of {format_count(len({each.commit for each in entries}), 'commit')}",
        headline=_describe_state([each for each in found if not each.has_ended]),
        cards=[*[Notes("Changes", notes)] * bool(notes), *map(_draw, found)],
    )


def _describe_state(found: Sequence[Series]) -> Headline:
    worse = sum(each.is_worse_now for each in found)
    if worse:
        metrics = f"{worse} metrics are" if worse > 1 else "A metric is"
        return Headline(Tone.BAD, "Worse", f"{metrics} worse than before.")
    if all(len(each.values) < MIN_COMMITS for each in found):
        return Headline(Tone.OPEN, "Too short", f"A change shows in {MIN_COMMITS} commits or more.")
    return Headline(Tone.GOOD, "No worse", "No metric is worse than before.")


def _draw(series: Series) -> Drawing:
    ended = "Ended: newer commits have other data, another host or other packages. "
    first, last = series.commits[0], series.commits[-1]
    dates = f"{first.date[:10]} to {last.date[:10]}"
    places = ", ".join(filter(None, (dates, last.device, last.host)))
    caption = f"{ended * series.has_ended}Each point is a commit. {places}"
    heading = f"{series.metric}, {series.test.split('::', 1)[-1]}"
    return Drawing(heading, draw_history(series), caption)
