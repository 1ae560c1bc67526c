"""Counts of trials by expected and given name, and the goals."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from netpipe.verdict.kinds import HEALTHY_KINDS
from perf_tests.studies.faults.trials import Trial

MIN_NAMED_FRACTION: Final = 0.95
MAX_INCONCLUSIVE_FRACTION: Final = 0.10
BLAMING: Final = (
    "donation-missing",
    "cache-warms-up",
    "slow-start",
    "memory-grows",
    "shared-memory-grows",
    "open-files-grow",
    "left-after-close",
)
"""Findings of a fault, which no control may have."""


class Result(Enum):
    """The outcome of a trial for the harness."""

    RIGHT = "right"
    OPEN = "inconclusive"
    WRONG = "wrong name"
    MISSED = "called fine"
    BLAMED = "blamed"


def find_name(trial: Trial) -> str:
    """Return the name that a trial counts as: a finding that blames, else the verdict."""
    blaming = BLAMING if trial.control else (trial.finding,)
    return next((name for name in trial.findings if name in blaming), trial.called)


def classify(trial: Trial) -> Result:
    """Return the result of a trial."""
    name = find_name(trial)
    if name in trial.kinds:
        return Result.RIGHT
    if name == trial.finding and not trial.control:
        return Result.RIGHT if trial.names in trial.findings[name] else Result.WRONG
    if name == "inconclusive":
        return Result.OPEN
    if trial.control:
        return Result.BLAMED
    return Result.MISSED if name in HEALTHY_KINDS else Result.WRONG


@dataclass(frozen=True)
class Rates:
    """How often the harness was right.

    Attributes:
        named: Faults that were named correctly.
        missed: Faults that were called healthy or at-risk, both of which pass.
        blamed: Controls that were called neither fine nor inconclusive.
        inconclusive: Faults and controls that were left open.
        inconclusive_faults: Faults that were left open.
        twice: Trials that took a second session.
    """

    faults: int
    controls: int
    named: int
    missed: int
    blamed: int
    inconclusive: int
    inconclusive_faults: int
    twice: int

    @property
    def named_fraction(self) -> float:
        """Faults named correctly over all decided faults; 1 without faults."""
        decided = self.faults - self.inconclusive_faults
        return self.named / decided if decided else 1.0

    @property
    def inconclusive_fraction(self) -> float:
        """Trials left open over all trials; 0 without trials."""
        trials = self.faults + self.controls
        return self.inconclusive / trials if trials else 0.0

    @property
    def meets_goals(self) -> bool:
        """Whether the rates meet the goals; without trials they do not."""
        return (
            self.faults + self.controls > 0
            and self.blamed == 0
            and self.missed == 0
            and self.named_fraction >= MIN_NAMED_FRACTION
            and self.inconclusive_fraction <= MAX_INCONCLUSIVE_FRACTION
        )


def count_rates(trials: Sequence[Trial]) -> Rates:
    """Count trials."""
    faults = Counter(classify(trial) for trial in trials if not trial.control)
    controls = Counter(classify(trial) for trial in trials if trial.control)
    return Rates(
        faults=faults.total(),
        controls=controls.total(),
        named=faults[Result.RIGHT],
        missed=faults[Result.MISSED],
        blamed=controls[Result.BLAMED],
        inconclusive=faults[Result.OPEN] + controls[Result.OPEN],
        inconclusive_faults=faults[Result.OPEN],
        twice=sum(trial.first_message is not None for trial in trials),
    )


def build_confusion(trials: Sequence[Trial]) -> list[list[str]]:
    """Return the confusion matrix as text: a heading, then a row for each expected name.

    Rows and columns are in the order of their first trial, so that the diagonal lines up; cells
    without a trial are empty.
    """
    cells = Counter((trial.expected, find_name(trial)) for trial in trials)
    expected = list(dict.fromkeys(trial.expected for trial in trials))
    seen = {name for _, name in cells}
    ordered = [name for row in expected for name in row.split(" or ") if name in seen]
    columns = list(dict.fromkeys([*ordered, *sorted(seen)]))
    rows = [
        [row, *(str(cells[row, column] or "") for column in columns)] for row in expected
    ]  # fmt: skip
    return [["expected", *columns], *rows]
