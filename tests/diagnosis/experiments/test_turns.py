"""Sides measured in turns, and their statistics."""

import threading
from collections.abc import Callable
from math import exp, inf, log

import pytest

from netpipe.diagnosis.experiments import turns as turns_module
from netpipe.diagnosis.experiments.pulling_threads import Block
from netpipe.diagnosis.experiments.turns import (
    MIN_ROUNDS,
    NO_TIME,
    SideBlocks,
    TimeSlot,
    log_interval,
    measure_in_turns,
)
from netpipe.jobs import bounded_calls as bounded_module
from tests.diagnosis.examples import block, in_rounds
from tests.fakes import FakeClock


class Sides:
    """Sides that take a second each, and record their order."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.measured: list[str] = []
        self.reported: list[int] = []

    def side(self, name: str, fails_at: int = 1_000, error: Exception | None = None) -> Block:
        """Measure, or fail from a number of calls on."""
        self.clock.sleep(1.0)
        self.measured.append(name)
        if self.measured.count(name) >= fails_at:
            raise error or ValueError("no more\nof it")
        return block(0.010 * len(self.measured))

    def measure_in_turns(
        self, budget_s: float, until_s: float = inf, cost_s: float = 0.0, **fails_at: int
    ) -> SideBlocks:
        """Measure a, b and others, which may fail."""
        names: dict[str, Callable[[], Block]] = {
            name: lambda name=name: self.side(name, fails_at.get(name, 1_000))  # type: ignore[misc]
            for name in {"a": 0, "b": 0, **fails_at}
        }
        return measure_in_turns(
            names, TimeSlot(self.clock, budget_s, until_s), self.reported.append, cost_s
        )


def test_every_second_round_is_reversed() -> None:
    """No side is always the first."""
    sides = Sides()
    sides.measure_in_turns(8.0)
    assert "".join(sides.measured) == "abbaabba"
    assert sides.reported == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("budget_s", "rounds"), [(0.001, MIN_ROUNDS), (9.9, 4), (10.0, 5), (1e6, 9)]
)
def test_the_budget_ends_the_rounds(budget_s: float, rounds: int) -> None:
    """Three rounds are always measured, and at most nine."""
    assert len(Sides().measure_in_turns(budget_s).blocks["a"]) == rounds


def test_the_last_sides_are_dropped_if_three_rounds_do_not_fit() -> None:
    """The reason for the others is the time."""
    sides = Sides()
    found = sides.measure_in_turns(6.0, until_s=7.0, cost_s=1.0, c=1_000, d=1_000)
    assert "".join(sides.measured) == "abbaab"
    assert found.failures == {"c": NO_TIME, "d": NO_TIME}


def test_no_round_begins_that_would_end_too_late() -> None:
    """Blocks that take longer than estimated leave fewer rounds."""
    sides = Sides()
    assert len(sides.measure_in_turns(9.0, until_s=5.9).blocks["b"]) == 2
    assert sides.clock() == 4.0


def test_the_first_side_is_measured_in_any_case() -> None:
    """The first side is measured even after the deadline; the others do not begin."""
    sides = Sides()
    found = sides.measure_in_turns(0.1, until_s=0.5)
    assert sides.measured == ["a"]
    assert found.failures == {"b": NO_TIME}


def test_a_side_that_hangs_is_abandoned(monkeypatch: pytest.MonkeyPatch) -> None:
    """A side that a watchdog guards has no limit here."""
    over = threading.Event()
    monkeypatch.setattr(turns_module, "_MIN_LIMIT_S", 0.01)
    monkeypatch.setattr(bounded_module, "_FAREWELL_S", 0.0)
    clock = FakeClock()
    hanging = {"a": lambda: block(0.01), "b": lambda: over.wait() and block(0.01)}
    found = measure_in_turns(hanging, TimeSlot(clock, 1.0, 0.001), print, watched="a")  # type: ignore[arg-type]
    over.set()
    assert found.has("a")
    assert "did not end" in found.failures["b"]


@pytest.mark.parametrize("at", [1, 2, 3])
def test_a_side_that_fails_is_left_out(at: int) -> None:
    """A failed side has no blocks, is not tried again, and keeps the first line of its error."""
    sides = Sides()
    found = sides.measure_in_turns(8.0, broken=at)
    assert not found.has("broken")
    assert found.failures == {"broken": "ValueError: no more"}
    assert sides.measured.count("broken") == at
    assert len(found.blocks["a"]) == len(found.blocks["b"]) >= MIN_ROUNDS


def test_rounds_end_when_all_sides_have_failed() -> None:
    """No side has blocks."""
    sides = Sides()
    found = sides.measure_in_turns(100.0, a=1, b=2)
    assert sides.measured == ["a", "b", "b"]
    assert not any(map(found.has, "ab"))
    assert set(found.failures) == {"a", "b"}


def test_a_speedup_pairs_the_blocks_of_a_round() -> None:
    """A slow round slows both sides, and keeps the ratio."""
    both = in_rounds(a=(0.010, 0.030), b=(0.020, 0.060))
    speedup = both.speedup("a", "b")
    assert (speedup.low, speedup.median, speedup.high) == pytest.approx((2.0, 2.0, 2.0))
    assert both.interval("a").median == pytest.approx(0.020)


def test_an_interval_is_students_of_the_logarithms() -> None:
    """Three values give 4.303 standard errors of the mean to either side."""
    found = log_interval([0.010, 0.020, 0.040])
    # From the table of Student's distribution, 2 degrees of freedom.
    reach = 4.3027 * log(2) / 3**0.5
    assert found.median == 0.020
    assert found.low == pytest.approx(0.020 * exp(-reach), rel=1e-3)
    assert found.high == pytest.approx(0.020 * exp(reach), rel=1e-3)
    assert found.n == 3


def test_an_interval_holds_its_median() -> None:
    """The interval includes a median that is far from the mean."""
    found = log_interval([1.0] * 8 + [1.1, 1e9])
    assert found.low <= found.median <= found.high


def test_one_value_bounds_nothing() -> None:
    """The interval of a single value is unbounded."""
    found = log_interval([0.010])
    assert (found.low, found.median, found.high) == (0.0, 0.010, inf)
