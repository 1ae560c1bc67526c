"""The part of a history: the metrics of each test over commits, and where they changed."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from netpipe.gate.metrics import METRICS
from netpipe.history.change_points import MIN_COMMITS, ChangePoint, find_change_points
from netpipe.history.entries import Entry, Series, list_series
from netpipe.reporting.content import Drawing, Fact, Headline, Note, Notes, Part
from netpipe.reporting.plots.rows import draw_values
from netpipe.reporting.tables import format_ratio
from netpipe.reporting.tones import Tone
from netpipe.results.fields import converter

_SHORT_SHA: Final = 9


def build_history_part(document: Mapping[str, Any]) -> Part:
    """Return the part of at least one `netpipe.history/1` entry, in the order of the commits."""
    entries = converter().structure(document["entries"], list[Entry])
    series = list(list_series(entries))
    found = [(each, find_change_points(each)) for each in series]
    changes = [change for _, of_series in found for change in of_series]
    worse = [change for change in changes if change.is_worse]
    commits = max(len(each.values) for each in series)
    notes = [Note(each.series.metric, describe_change(each), _pick_tone(each)) for each in changes]
    return Part(
        title=f"History until {entries[-1].commit[:_SHORT_SHA]}",
        headline=_describe_state([change for change in worse if change.is_latest], commits),
        facts=[
            Fact("commits", str(commits), f"{entries[0].date[:10]} to {entries[-1].date[:10]}"),
            Fact("changes", str(len(changes)), f"{len(worse)} for the worse"),
        ],
        cards=[
            *[Notes("Changes", notes)] * bool(notes),
            # The metrics that changed come first.
            *(_draw(*each) for each in sorted(found, key=lambda each: not each[1])),
        ],
    )


def _describe_state(lasting: Sequence[ChangePoint], commits: int) -> Headline:
    if lasting:
        metrics = f"{len(lasting)} metrics" if len(lasting) > 1 else "A metric"
        return Headline(Tone.BAD, "Worse", f"{metrics} became worse, and did not recover.")
    if commits < MIN_COMMITS:
        return Headline(Tone.OPEN, "Too short", f"A change shows in {MIN_COMMITS} commits or more.")
    return Headline(Tone.GOOD, "No worse", "Every metric is as good as before, or better.")


def describe_change(change: ChangePoint) -> str:
    """Return a sentence about a change."""
    series, metric = change.series, METRICS.get(change.series.metric)
    before, after = map(series.format, (change.before, change.after))
    factor = ""
    if change.before > 0 and not (metric and metric.is_share):
        factor = f", {format_ratio(change.after / change.before)} x"
    became = "became worse" if change.is_worse else "became better"
    device = f" on {series.device}" * bool(series.device)
    return (
        f"{series.metric} of {series.test}{device} {became} at about {_name_commit(change)}: "
        f"{after} in {change.end - change.at} commits, after {before} in "
        f"{change.at - change.begin}{factor}"
    )


def _name_commit(change: ChangePoint) -> str:
    entry = change.series.commits[change.at]
    return f"{entry.commit[:_SHORT_SHA]} of {entry.date[:10]}"


def _pick_tone(change: ChangePoint) -> Tone:
    return Tone.BAD if change.is_worse else Tone.GOOD


def _draw(series: Series, changes: Sequence[ChangePoint]) -> Drawing:
    levels = [(change.begin, change.at, change.before) for change in changes]
    levels += [(change.at, change.end, change.after) for change in changes[-1:]]
    first, last = series.commits[0], series.commits[-1]
    svg = draw_values(
        series.values,
        levels,
        (first.date[:10], last.date[:10]),
        series.format,
    )
    places = filter(None, (series.test, last.device, last.host))
    caption = f"Each point is a commit; a line is the median between changes. {', '.join(places)}"
    return Drawing(series.metric, svg, caption)
