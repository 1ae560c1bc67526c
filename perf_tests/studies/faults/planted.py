"""Where a case's time goes, which `netpipe diagnose` must name."""

import re
from dataclasses import dataclass
from typing import Final

from netpipe.diagnosis.diagnosis import RESOURCES

NO_STAGE: Final = ""
SOURCE: Final = "Source"
TRANSFORM: Final = "Transform"  # of perf_tests.studies.faults.grain_loaders
BATCH: Final = "Batch"
SLOW_START: Final = "slow-start"  # in place of a resource
PYTHON: Final = "in_main_thread"  # of perf_tests.studies.faults.loaders


@dataclass(frozen=True)
class Planted:
    """The stage that time was planted in, and what it is short of.

    Attributes:
        stages: A word of what a right answer calls the stage: the kind of a Grain node or the
            function in it, a function of a loader in plain Python, or a part of the start.
            `NO_STAGE` where the time is spent beside all stages.
        resources: The right answers to what binds it; `SLOW_START` for a part of the start.
        why: Why more than one answer is right.
    """

    stages: tuple[str, ...]
    resources: tuple[str, ...]
    why: str = ""

    def __post_init__(self) -> None:
        assert self.stages, "stages must name one, or be (NO_STAGE,)"
        assert self.resources, "resources must name one"
        assert set(self.resources) <= {*RESOURCES, SLOW_START}, (
            f"unknown resource in {self.resources}"
        )
        assert self.why or len(self.stages) == len(self.resources) == 1, "two answers need a reason"

    def is_stage(self, name: str | None) -> bool:
        """Return whether a stage is the planted one.

        Args:
            name: What diagnose calls it: `Map of module.function`, or `caller > callee` in plain
                Python; None for no stage.
        """
        words = re.findall(r"\w+", name) if name else [NO_STAGE]
        return not set(words).isdisjoint(self.stages)

    def is_resource(self, name: str) -> bool:
        """Return whether a resource is the one that binds the planted stage."""
        return name in self.resources

    def __str__(self) -> str:
        """Write it as a cell of a table."""
        stages = " or ".join(stage or "no stage" for stage in self.stages)
        return f"{stages}: {' or '.join(self.resources)}"


def waits(stage: str) -> Planted:
    """Return a stage that waits, as for storage."""
    return Planted((stage,), ("read-latency" if stage == SOURCE else "waiting",))


def reads_wait_for(limit: str) -> Planted:
    """Return a source in a storage that is slow by its latency, its bandwidth or its throttling."""
    return Planted((SOURCE,), (f"read-{limit}",))


def starts_slowly(part: str) -> Planted:
    """Return a part of the start, by a word of its name in `netpipe.results.start_up`."""
    return Planted((part,), (SLOW_START,))


def holds_the_lock(stage: str) -> Planted:
    """Return a stage that computes in pure Python."""
    return Planted((stage,), ("gil",))
