"""The steps of the real loop, one by one and as a distribution, where a measurement has them."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from netpipe.page.content import Drawing
from netpipe.page.plots import distributions, timeline
from netpipe.results.step_times import StepTimes

STEP_FIELDS: Final = ("timeline", "distributions")


def build_step_cards(document: Mapping[str, Any]) -> Iterator[Drawing]:
    """Yield drawings of a measurement document's timeline and distributions."""
    if steps := document.get("timeline"):
        drawn = timeline.build_timeline(tuple(StepTimes(**step) for step in steps))
        is_exact = document["device"]["platform"] == "emulated"
        caption = timeline.write_caption(drawn, is_exact=is_exact)
        yield Drawing("Who waits for whom", timeline.draw_timeline(drawn), caption)
    if found := document.get("distributions"):
        step_s, wait_s = found["train_step_s"], found["wait_s"]
        yield Drawing(
            "All steps, not only the median",
            distributions.draw_distributions(step_s, wait_s),
            distributions.write_caption(step_s, wait_s, found["steps"]),
        )
