"""What a case of the catalogue is: a loader, a loop and a step with severities yet to be drawn."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from zlib import crc32

import numpy as np

from perf_tests.studies.faults.batches import Batch
from perf_tests.studies.faults.loops import Loop, Step
from perf_tests.studies.faults.planted import Planted

Values = Mapping[str, float]

_DIGITS = 4  # a drawn value is used as it is printed


@dataclass(frozen=True)
class Range:
    """A severity's range, both ends in it; a `whole` one has only whole numbers."""

    low: float
    high: float
    whole: bool = False

    def __post_init__(self) -> None:
        assert self.low <= self.high, f"low must be at most high; found {self}"

    def draw(self, generator: np.random.Generator) -> float:
        """Return a value, every one of the range as likely as any other."""
        if self.whole:
            return int(generator.integers(int(self.low), int(self.high), endpoint=True))
        drawn = float(f"{generator.uniform(self.low, self.high):.{_DIGITS}g}")
        return min(self.high, max(self.low, drawn))


STEP_S = Range(0.012, 0.024)


@dataclass(frozen=True)
class Case:
    """A fault that is planted, or a control that has none.

    Attributes:
        plants: One sentence: what is wrong, or what is fine.
        kinds: The verdicts that are right; "healthy" is among those of a control.
        ranges: The range of every value; `step_s`, seconds, is always among them but for a real
            step. Ratios named `*_ratio` are of that step's time.
        loop: Makes the trainer's loop; the harness's own when left out.
        step: Makes a real `(state, step)`, which then runs on the CPU; an emulated accelerator
            takes its place when left out.
        finding: The name of a finding that names the fault too.
        names: What that finding must name: a process, or a part of the start.
        why: Why more than one verdict is right.
        budget_ratio: Of the budget of a case, for one that takes longer.
        planted: Where the loader's time goes, for what `netpipe diagnose` must say; None where
            loading is not what is wrong.
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
        """What it must be called."""
        return " or ".join([*self.kinds, *filter(None, [self.finding])])

    def draw(self, seed: int) -> dict[str, float]:
        """Return the values of one trial: the same for the same seed, whatever else is run."""
        generator = np.random.default_rng([seed, crc32(self.name.encode())])
        return {name: limits.draw(generator) for name, limits in self.ranges.items()}

    def accelerator(self, values: Values) -> str:
        """Return the accelerator's name: the CPU for a real step, else a clock."""
        if self.step is not None:
            return "auto"
        copy = f"@{values['copy_gb_per_s']:g}GB/s" if "copy_gb_per_s" in values else ""
        return f"emulated:{1000 * values['step_s']:g}ms{copy}"


def load_s(values: Values) -> float:
    """Return the seconds of one batch, from `load_ratio` and `step_s`."""
    return values["load_ratio"] * values["step_s"]
