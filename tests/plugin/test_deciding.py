"""Which of a benchmark's comparisons its test is told by."""

from datetime import date

import pytest

from netpipe.gate.outcomes import Comparison, Outcome
from netpipe.gate.waivers import Waiver
from netpipe.plugin.gate_results import GateResult, find_worst
from netpipe.results.measurement import Interval
from tests.plugin.recorded import recorded

WAIVER = Waiver("a::b", "step_s", 1.5, "why", date(2026, 12, 31))
WORST_FIRST = [
    "REGRESSED",
    "INCONCLUSIVE",
    "NO_BASELINE",
    "waived",
    "IMPROVED",
    "PASS",
    "NOT_COMPARED",
]


def compared(outcome: str) -> GateResult:
    """Give a comparison of an outcome, or a regression that is waived."""
    is_waived = outcome == "waived"
    found = Outcome.REGRESSED if is_waived else Outcome(outcome)
    comparison = Comparison(found, "step_s", 1.0, 1.0, "why", Interval(1.0, 1.0, 1.0, 2))
    waiver = WAIVER if is_waived else None
    return GateResult("a::b", "step_s", comparison, recorded(), waiver)


@pytest.mark.parametrize("place", range(len(WORST_FIRST)))
def test_the_worst_decides(place: int) -> None:
    """A waived regression hides no other one, and is hidden by nothing that passes."""
    worst, *others = map(compared, WORST_FIRST[place:])
    assert find_worst([*others, worst]) is worst
