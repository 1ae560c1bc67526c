"""Sides measured in turns: their order, the deadline, and the results."""

from collections.abc import Callable
from math import inf

import pytest

from netpipe.measuring.interleaving import Interleaved, interleave, order_of_round
from tests.fakes import FakeClock


class Sides:
    """Sides of a second each; the result of a block is its number."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.measured: list[str] = []
        self.failing: dict[str, float] = {}

    def measure(self, side: str) -> int:
        """Take a second, and fail from the side's time of failure on."""
        self.clock.sleep(1.0)
        self.measured.append(side)
        if self.clock() >= self.failing.get(side, inf):
            raise ValueError(side)
        return len(self.measured)

    def interleave(
        self,
        sides: str,
        rounds: int,
        until_s: float = inf,
        describe_error: Callable[[Exception], str] | None = str,
    ) -> Interleaved[str, int]:
        """Measure the sides named by letters."""
        return interleave(
            sides,
            self.measure,
            lambda done: len(done.rounds) < rounds,
            clock=self.clock,
            until_s=until_s,
            describe_error=describe_error,
        )


@pytest.fixture
def sides(clock: FakeClock) -> Sides:
    """Sides that do not fail."""
    return Sides(clock)


def test_every_second_round_is_reversed(sides: Sides) -> None:
    """No side is always first, and each has its own results."""
    done = sides.interleave("abc", 3)
    assert "".join(sides.measured) == "abccbaabc"
    assert (done.results("a"), done.results("c")) == ([1, 6, 7], [3, 4, 9])
    assert done.longest_round_s == 3.0
    assert order_of_round([1, 2], 0) == [1, 2]
    assert order_of_round([1, 2], 1) == [2, 1]


def test_no_side_starts_after_the_deadline(sides: Sides) -> None:
    """Earlier results are kept, also those of an incomplete round."""
    done = sides.interleave("abc", 2, until_s=4.5)
    assert "".join(sides.measured) == "abccb"
    assert done.rounds == [{"a": 1, "b": 2, "c": 3}, {"c": 4, "b": 5}]
    assert done.failures == {}


def test_a_side_that_fails_is_left_out(sides: Sides) -> None:
    """A failed side keeps its earlier results and has a reason; the others continue."""
    sides.failing = {"b": 3.0}
    done = sides.interleave("ab", 3)
    assert "".join(sides.measured) == "abbaa"
    assert done.failures == {"b": "b"}
    assert (done.results("a"), done.results("b")) == ([1, 4, 5], [2])


def test_it_ends_when_all_sides_have_failed(sides: Sides) -> None:
    """There are no more rounds after the deadline, whatever the caller wants."""
    sides.failing = {"a": 0.0, "b": 0.0}
    assert sides.interleave("ab", 9).failures == {"a": "a", "b": "b"}
    assert "".join(sides.measured) == "ab"


def test_a_failure_after_the_deadline_takes_nothing_back(sides: Sides) -> None:
    """A failure after the deadline counts only against a side without results."""
    sides.failing = {"b": 3.0}
    assert sides.interleave("ab", 2, until_s=2.5).failures == {}
    sides.failing = {"c": 0.0}
    assert sides.interleave("c", 1, until_s=0.0).failures == {"c": "c"}


def test_errors_propagate_unless_they_are_described(sides: Sides) -> None:
    """A caller without a description of errors gets the first one."""
    sides.failing = {"b": 0.0}
    with pytest.raises(ValueError, match="b"):
        sides.interleave("ab", 1, describe_error=None)
