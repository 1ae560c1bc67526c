"""The part of a history: the metrics of each test over commits, and where they changed."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from netpipe.gate.metrics import METRICS
from netpipe.history.change_points import (
    MIN_COMMITS,
    ChangePoint,
    find_change_points,
    is_worse_now,
)
from netpipe.history.entries import Entry, Series, list_series
from netpipe.reporting.content import Drawing, Fact, Headline, Note, Notes, Part
from netpipe.reporting.plots.rows import draw_values
from netpipe.reporting.tones import Tone
from netpipe.results.fields import converter

_SHORT_SHA: Final = 9


def build_history_part(document: Mapping[str, Any]) -> Part:
    """Return the part of `netpipe.history/1` entries that hold at least one value."""
    entries = converter().structure(document["entries"], list[Entry])
    found = [(each, find_change_points(each)) for each in list_series(entries)]
    changes = [change for _, of_series in found for change in of_series]
    notes = [Note(_place(each), describe_change(each), _pick_tone(each)) for each in changes]
    dates, commits = sorted(entry.date[:10] for entry in entries), {each.commit for each in entries}
    worse = sum(change.is_worse for change in changes)
    return Part(
        title=f"History of {len(commits)} commits",
        headline=_describe_state([each for each in found if not each[0].has_ended]),
        facts=[
            Fact("commits", str(len(commits)), f"{dates[0]} to {dates[-1]}"),
            Fact("changes", str(len(changes)), f"{worse} for the worse"),
        ],
        cards=[
            *[Notes("Changes", notes)] * bool(notes),
            # The metrics that changed come first, those with other data or another host last.
            *(_draw(*each) for each in sorted(found, key=lambda it: (it[0].has_ended, not it[1]))),
        ],
    )


def _describe_state(found: Sequence[tuple[Series, Sequence[ChangePoint]]]) -> Headline:
    worse = sum(is_worse_now(changes) for _, changes in found)
    if worse:
        metrics = f"{worse} metrics are" if worse > 1 else "A metric is"
        return Headline(Tone.BAD, "Worse", f"{metrics} worse than before.")
    short = sum(len(series.values) < MIN_COMMITS for series, _ in found)
    if short == len(found):
        return Headline(Tone.OPEN, "Too short", f"A change shows in {MIN_COMMITS} commits or more.")
    others = f"; {short} have less than {MIN_COMMITS} commits" * bool(short)
    return Headline(Tone.GOOD, "No worse", f"No metric is worse than before{others}.")


def describe_change(change: ChangePoint) -> str:
    """Return a sentence about a change, without its place."""
    series, metric = change.series, METRICS.get(change.series.metric)
    percent = ""
    if change.before > 0 and not (metric and metric.is_share):
        percent = f" by {100 * abs(change.after / change.before - 1):.2g}%"
    rose = "rose" if change.after > change.before else "fell"
    judged = "worse" if change.is_worse else "better"
    commit, before, after = series.commits[change.at], change.before, change.after
    return (
        f"{series.metric} {rose}{percent} ({judged}) at about {commit.commit[:_SHORT_SHA]} of "
        f"{commit.date[:10]}: {series.format(before)} in {change.at - change.begin} commits, then "
        f"{series.format(after)} in {change.end - change.at}"
    )


def _place(change: ChangePoint) -> str:
    series = change.series
    return f"{series.test} on {series.device}" if series.device else series.test


def _pick_tone(change: ChangePoint) -> Tone:
    return Tone.BAD if change.is_worse else Tone.GOOD


def _draw(series: Series, changes: Sequence[ChangePoint]) -> Drawing:
    levels = [(change.begin, change.at, change.before) for change in changes]
    levels += [(change.at, change.end, change.after) for change in changes[-1:]]
    first, last = series.commits[0], series.commits[-1]
    ends = first.date[:10], last.date[:10]
    svg = draw_values(series.values, levels, ends, series.format)
    ended = "Ended: newer commits have other data, another host or other packages. "
    places = filter(None, (last.device, last.host))
    caption = f"{ended * series.has_ended}Each point is a commit. {', '.join(places)}".strip()
    return Drawing(f"{series.metric}, {series.test.rpartition('::')[2]}", svg, caption)
