"""The stage and resource of a case that `netpipe diagnose` must name."""

import re
from dataclasses import dataclass
from typing import Final

from netpipe.diagnosis.diagnosis import RESOURCES

NO_STAGE: Final = ""
SOURCE: Final = "Source"
TRANSFORM: Final = "Transform"  # of perf_tests.studies.faults.parts.grain_loaders
BATCH: Final = "Batch"
SLOW_START: Final = "slow-start"  # replaces a resource
PYTHON: Final = "in_main_thread"  # of perf_tests.studies.faults.parts.loaders


@dataclass(frozen=True)
class Planted:
    """The stage in which time was planted, and the resource that limits it.

    Attributes:
        stages: Words that name the stage in a right answer: the kind of a Grain node or the
            function in it, a function of a loader in plain Python, or a part of the start.
            `NO_STAGE` if the time is spent outside all stages.
        resources: The right resources; `SLOW_START` for a part of the start.
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
            name: The name in the diagnosis: `Map of module.function`, or `caller > callee` in plain
                Python; None if it names no stage.
        """
        words = re.findall(r"\w+", name) if name else [NO_STAGE]
        return not set(words).isdisjoint(self.stages)

    def is_resource(self, name: str) -> bool:
        """Return whether a resource is the one that limits the planted stage."""
        return name in self.resources

    def __str__(self) -> str:
        """Format it as a table cell."""
        stages = " or ".join(stage or "no stage" for stage in self.stages)
        return f"{stages}: {' or '.join(self.resources)}"


def waits(stage: str) -> Planted:
    """Return a stage that waits, for example for storage."""
    return Planted((stage,), ("read-latency" if stage == SOURCE else "waiting",))


def reads_wait_for(limit: str) -> Planted:
    """Return a source that is slow by its storage's latency, bandwidth or throttling."""
    return Planted((SOURCE,), (f"read-{limit}",))


def starts_slowly(part: str) -> Planted:
    """Return the part of the start whose name in `netpipe.results.start_up` has this word."""
    return Planted((part,), (SLOW_START,))


def holds_the_lock(stage: str) -> Planted:
    """Return a stage that computes in pure Python."""
    return Planted((stage,), ("gil",))
