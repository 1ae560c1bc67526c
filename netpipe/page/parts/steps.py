"""The steps of the real loop, one by one and all together, where a measurement holds them."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from netpipe.page.content import Drawing
from netpipe.page.plots import distributions, timeline
from netpipe.results.step_times import StepTimes

STEP_FIELDS: Final = ("timeline", "distributions")


def step_cards(document: Mapping[str, Any]) -> Iterator[Drawing]:
    """Give the drawings of a `netpipe.measurement/1` document's timeline and distributions."""
    if steps := document.get("timeline"):
        shown = timeline.build_timeline(tuple(StepTimes(**one) for one in steps))
        said = timeline.write_caption(shown, is_exact=document["device"]["platform"] == "emulated")
        yield Drawing("Who waits for whom", timeline.draw_timeline(shown), said)
    if found := document.get("distributions"):
        yield Drawing(
            "All steps, not only the median",
            distributions.draw_distributions(found["train_step_s"], found["wait_s"]),
            distributions.write_caption(found["train_step_s"], found["wait_s"], found["steps"]),
        )
