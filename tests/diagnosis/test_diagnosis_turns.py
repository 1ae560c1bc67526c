"""Sides measured in turns."""

from collections.abc import Callable
from dataclasses import replace
from math import exp, inf, log

import pytest

from netpipe.diagnosis.blocks import Block
from netpipe.diagnosis.turns import LEAST_ROUNDS, Turns, in_turns, interval_of
from netpipe.harness.errors import SessionError
from tests.diagnosis.diagnosed import block, turns
from tests.harness.fakes import FakeClock


class Sides:
    """Sides that take a second each, and remember in which order they were measured."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.measured: list[str] = []
        self.told: list[int] = []

    def side(self, name: str, fails_at: int = 1_000, error: Exception | None = None) -> Block:
        """Measure, or fail from some time on."""
        self.clock.sleep(1.0)
        self.measured.append(name)
        if self.measured.count(name) >= fails_at:
            raise error or ValueError("no more\nof it")
        return block(0.010 * len(self.measured))

    def in_turns(self, budget_s: float, **fails_at: int) -> Turns:
        """Measure a and b, and others that fail."""
        names: dict[str, Callable[[], Block]] = {
            name: lambda name=name: self.side(name, fails_at.get(name, 1_000))  # type: ignore[misc]
            for name in {"a": 0, "b": 0, **fails_at}
        }
        return in_turns(names, budget_s, self.clock, self.told.append)


def test_there_and_back() -> None:
    """Every second round is measured the other way about, so that none is always first."""
    sides = Sides()
    sides.in_turns(8.0)
    assert "".join(sides.measured) == "abbaabba"
    assert sides.told == [1, 2, 3, 4]


def test_the_budget_ends_it() -> None:
    """No round is begun that would end behind the budget."""
    assert len(Sides().in_turns(9.9).rounds) == 4
    assert len(Sides().in_turns(10.0).rounds) == 5


def test_three_rounds_are_made_whatever_they_take() -> None:
    """With fewer there is no interval: the budget waits for them."""
    assert len(Sides().in_turns(0.001).rounds) == LEAST_ROUNDS


def test_enough_is_enough() -> None:
    """A large budget is not used up."""
    assert len(Sides().in_turns(1e6).rounds) == 9


@pytest.mark.parametrize("at", [1, 2, 3])
def test_a_side_that_fails_is_left_out(at: int) -> None:
    """It is in no round, not tried again, and the first line of why is kept."""
    sides = Sides()
    found = sides.in_turns(8.0, broken=at)
    assert not found.has("broken")
    assert found.failures == {"broken": "ValueError: no more"}
    assert sides.measured.count("broken") == at
    assert len(found.blocks("a")) == len(found.blocks("b")) == len(found.rounds) >= LEAST_ROUNDS


def test_an_error_of_the_harness_is_told_as_it_is() -> None:
    """What is meant for the user needs no class in front."""
    sides = Sides()
    found = in_turns(
        {"a": lambda: sides.side("a", 1, SessionError("it ended"))}, 5.0, sides.clock, print
    )
    assert found.failures == {"a": "it ended"}


def test_it_ends_when_all_have_failed() -> None:
    """Nothing is left to be measured, and nothing was."""
    sides = Sides()
    found = sides.in_turns(100.0, a=1, b=2)
    assert sides.measured == ["a", "b", "b"]
    assert not any(map(found.has, "ab"))
    assert set(found.failures) == {"a", "b"}


def test_without_a_round_there_is_no_side() -> None:
    """Turns that were never made have no side."""
    assert not Turns().has("a")


def test_a_speedup_pairs_the_blocks_of_a_round() -> None:
    """Rounds in which the machine was slow slow both sides, and the ratio stays."""
    slow, slower = turns(1, a=0.010, b=0.020), turns(1, a=0.030, b=0.060)
    both = Turns(slow.rounds + slower.rounds)
    speedup = both.speedup("a", "b")
    assert (speedup.low, speedup.median, speedup.high) == pytest.approx((2.0, 2.0, 2.0))
    assert both.interval("a").median == pytest.approx(0.020)


def test_waits_for_a_core_can_be_left_out() -> None:
    """Undelayed turns have the times that a machine with nothing else to do would give."""
    delayed = replace(block(0.040), undelayed_s_per_batch=0.030)
    failed = replace(turns(a=delayed), failures={"b": "why"})
    assert failed.undelayed().s_per_batch("a") == (0.030,) * 3
    assert failed.undelayed().failures == {"b": "why"}


def test_an_interval_is_students_of_the_logarithms() -> None:
    """Of three values: the mean of their logarithms, 4.303 of its standard errors to either side.

    The quantile is from the table of Student's distribution, 2 degrees of freedom.
    """
    found = interval_of([0.010, 0.020, 0.040])
    reach = 4.3027 * log(2) / 3**0.5
    assert found.median == 0.020
    assert found.low == pytest.approx(0.020 * exp(-reach), rel=1e-3)
    assert found.high == pytest.approx(0.020 * exp(reach), rel=1e-3)
    assert found.n == 3


def test_an_interval_holds_its_median() -> None:
    """Where the mean is far from it, the interval reaches to the median all the same."""
    found = interval_of([1.0] * 8 + [1.1, 1e9])
    assert found.low <= found.median <= found.high


def test_one_value_bounds_nothing() -> None:
    """It says as much of a machine as any other."""
    found = interval_of([0.010])
    assert (found.low, found.median, found.high) == (0.0, 0.010, inf)
