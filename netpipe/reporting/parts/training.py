"""The part of a watched run: whether it waited for its data, over time."""

from collections.abc import Mapping
from datetime import UTC, datetime
from itertools import groupby
from typing import Any, Final

from netpipe.reporting.content import Card, Drawing, Fact, Headline, Note, Notes, Part
from netpipe.reporting.plots.timeline import draw_run
from netpipe.reporting.tables import capitalize
from netpipe.reporting.tones import BY_VERDICT
from netpipe.results.fields import converter
from netpipe.results.units import format_bytes, format_percent, format_seconds
from netpipe.watching.processes import find_memory_growth, merge
from netpipe.watching.window import Window

_MIN_STRETCH: Final = 3
_SHOWN_STRETCHES: Final = 20


def build_training_part(document: Mapping[str, Any]) -> Part:
    """Return the part of the `netpipe.training/1` windows of a run, oldest first."""
    windows = converter().structure(document["windows"], list[Window])
    decided = [each for each in windows if each.verdict.severity != 1] or windows
    stretches = [list(each) for _, each in groupby(decided, key=lambda each: each.verdict.kind)]
    whole, latest = merge(windows), stretches[-1]
    # A run that has become slow is not healthy, however long it was before.
    merged = [whole, *[merge(latest)] * (len(latest) >= _MIN_STRETCH)]
    judged = max((each.verdict for each in merged), key=lambda verdict: verdict.severity)
    sentence = f"{capitalize(judged.message)}."
    advice = judged.next if judged.severity else ""
    headline = Headline(BY_VERDICT[judged.kind], capitalize(judged.kind), sentence, advice)
    figures, exposed = whole.figures, whole.figures.exposed_fraction
    memory = [format_bytes(each.memory_bytes) for each in (windows[0], windows[-1])]
    growth = find_memory_growth(windows)
    grows = f", grows by {format_bytes(growth)} an hour" * (growth > 0)
    facts = [
        Fact("batches", f"{figures.batches:,}", f"from batch {whole.batches_before:,} on"),
        Fact("device idle", format_percent(exposed.median) if exposed else "not known"),
        Fact("loop waits", format_percent(figures.waiting_fraction)),
        Fact("batch to batch", format_seconds(figures.step_s) if figures.step_s else "not known"),
        Fact("memory", memory[1], f"{memory[0]} at first{grows}"),
    ]
    caption = "Each bar is one window of netpipe.watch, or, in a long run, several."
    changes = [_describe(each) for each in stretches[-_SHOWN_STRETCHES:]]
    cards: list[Card] = [
        Drawing("Over the run", draw_run(windows), caption),
        Notes("Verdicts, one after the other", changes),
    ]
    return Part(f"Training on {whole.host}", headline, facts, cards)


def _describe(stretch: list[Window]) -> Note:
    first, verdict = stretch[0], merge(stretch).verdict
    began = datetime.fromtimestamp(max(0.0, first.ended_s - first.figures.seconds), UTC)
    place = f"from {began:%d %b %H:%M} UTC and batch {first.batches_before:,} on"
    return Note(verdict.kind, f"{place}: {verdict.message}", BY_VERDICT[verdict.kind])
