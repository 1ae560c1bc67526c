"""Cases of the catalogue: a loader, a loop and a step, with ranges of severity."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from zlib import crc32

import numpy as np

from perf_tests.studies.faults.parts.batches import Batch
from perf_tests.studies.faults.parts.loops import Loop, Step
from perf_tests.studies.faults.planted import Planted

Values = Mapping[str, float]

_DIGITS = 4  # so that a drawn value prints exactly


@dataclass(frozen=True)
class Range:
    """A closed range of severities; only whole numbers if `whole`."""

    low: float
    high: float
    whole: bool = False

    def __post_init__(self) -> None:
        assert self.low <= self.high, f"low must be at most high; found {self}"

    def draw(self, generator: np.random.Generator) -> float:
        """Draw a value uniformly."""
        if self.whole:
            return int(generator.integers(int(self.low), int(self.high), endpoint=True))
        drawn = float(f"{generator.uniform(self.low, self.high):.{_DIGITS}g}")
        return min(self.high, max(self.low, drawn))


STEP_S = Range(0.012, 0.024)


@dataclass(frozen=True)
class Case:
    """A planted fault, or a control without one.

    Attributes:
        plants: The fault, or why the control is fine, in one sentence.
        kinds: The right verdicts; for a control, "healthy" is one of them.
        ranges: The range of every value; `step_s`, seconds, is always among them except for a real
            step. Ratios named `*_ratio` are of that step's time.
        loop: Makes the trainer's loop; by default, the harness's own.
        step: Makes a real `(state, step)`, which then runs on the CPU; an emulated accelerator
            takes its place if omitted.
        finding: A finding that also names the fault.
        names: What that finding must name: a process, or a part of the start.
        why: Why more than one verdict is right.
        budget_ratio: Multiple of the usual budget, for cases that take longer.
        planted: The stage and resource that `netpipe diagnose` must name; None if loading is
            not the fault.
    """

    name: str
    family: str
    plants: str
    kinds: tuple[str, ...]
    loader: Callable[[Values], Iterable[Batch]]
    ranges: Mapping[str, Range] = field(default_factory=lambda: {"step_s": STEP_S})
    loop: Callable[[Values], Loop] | None = None
    step: Callable[[Values], tuple[Any, Step]] | None = None
    finding: str | None = None
    names: str = ""
    why: str = ""
    budget_ratio: float = 1.0
    planted: Planted | None = None

    @property
    def is_control(self) -> bool:
        """Whether nothing is wrong."""
        return "healthy" in self.kinds

    @property
    def expected(self) -> str:
        """The right verdicts, as printed."""
        return " or ".join([*self.kinds, *filter(None, [self.finding])])

    def draw(self, seed: int) -> dict[str, float]:
        """Return the values of one trial, which depend on the seed alone."""
        generator = np.random.default_rng([seed, crc32(self.name.encode())])
        return {name: limits.draw(generator) for name, limits in self.ranges.items()}

    def accelerator(self, values: Values) -> str:
        """Return the name of the accelerator: the CPU for a real step, else an emulated one."""
        if self.step is not None:
            return "auto"
        copy = f"@{values['copy_gb_per_s']:g}GB/s" if "copy_gb_per_s" in values else ""
        return f"emulated:{1000 * values['step_s']:g}ms{copy}"


def load_s(values: Values) -> float:
    """Return the seconds of one batch, from `load_ratio` and `step_s`."""
    return values["load_ratio"] * values["step_s"]
