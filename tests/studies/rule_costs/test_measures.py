"""Observations of pipelines whose answers are known."""

from collections.abc import Callable, Iterator
from typing import Any, cast

import numpy as np
import pytest

from perf_tests.studies.rule_costs import measures
from perf_tests.studies.rule_costs.document import Block
from perf_tests.studies.rule_costs.examples import Example, Setting

SHARED = """
import grain
import numpy as np

def batch(*numbers):
    return {"a": np.repeat(np.array(numbers), 3).reshape(-1, 3)}
"""
SETTING = Setting(batch=2, rows=8)


def made(code: str) -> Example:
    """An example with this pipeline code."""
    return Example(Block("python", SHARED, 1), Block("python", code, 10))


def giving(*batches: tuple[int, ...]) -> Example:
    """An example of batches with these numbers."""
    return made(f"def pipeline():\n    return [batch(*rows) for rows in {list(batches)}]\n")


def test_delivered_elements_are_counted() -> None:
    """Elements of a whole epoch are counted, with the short batch."""
    assert measures.count_delivered_elements(giving((1, 2), (3,)), SETTING).values == {
        "elements": 3
    }


def test_neighbours_are_counted_on_either_side() -> None:
    """An element counts if its neighbour in the data set is in the same batch."""
    batches = giving((1, 2, 7, 10), (4, 3, 5, 0))
    assert measures.count_neighbours(batches, SETTING).values == {"elements": 2.5}


def test_elements_of_the_first_epoch_are_those_seen_while_one_could_be() -> None:
    """Four batches of two are an epoch of eight; duplicates count once."""
    batches = giving((0, 1), (1, 2), (2, 3), (4, 4), (5, 6))
    assert measures.count_distinct_elements(batches, SETTING).values == {"elements": 5}


def test_batches_from_one_half_are_counted() -> None:
    """Rows 0 to 3 and 4 to 7 are the halves."""
    batches = giving((0, 3), (3, 4), (7, 5))
    assert measures.count_one_sided_batches(batches, SETTING).values == {"batches": 2}


def test_batches_that_change_with_the_workers_are_counted() -> None:
    """Batches are compared position by position."""
    code = "def pipeline():\n    return [batch(1), batch(2, WORKERS.num_workers), batch(3)]\n"
    assert measures.count_worker_dependent_batches(made(code), SETTING).values == {"batches": 1}


def test_a_crash_is_told_with_the_batches_before_it() -> None:
    """The exception is named, with the first line of its message."""
    code = "def pipeline():\n    yield batch(1)\n    raise ValueError('no more.\\nbecause')\n"
    observed = measures.count_batches_before_crash(made(code), SETTING)
    assert observed.values == {"batches": 1}
    assert observed.error == "ValueError: no more"


def test_a_pipeline_that_runs_has_no_crash() -> None:
    """Only the first batches are pulled, and no crash is reported."""
    code = "def pipeline():\n    while True:\n        yield batch(1)\n"
    observed = measures.count_batches_before_crash(made(code), SETTING)
    assert observed.values == {"batches": measures.CRASH_BATCHES}
    assert observed.error == ""


class HeldClock:
    """Time that passes only when a batch is made or a step is taken."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def perf_counter(self) -> float:
        """Return the time."""
        return self.now_s

    def sleep(self, duration_s: float) -> None:
        """Let time pass."""
        self.now_s += duration_s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> HeldClock:
    """A fake clock at 0 for the measures."""
    held = HeldClock()
    monkeypatch.setattr(measures, "time", held)
    return held


class Slow:
    """Batches of four that take a quarter of a second each, the first a whole one."""

    def __init__(self, clock: HeldClock) -> None:
        self._clock = clock

    def loader(self, _: Setting) -> Callable[[], Iterator[dict[str, Any]]]:
        """Return the factory."""
        return self._batches

    def _batches(self) -> Iterator[dict[str, Any]]:
        self._clock.sleep(0.75)
        while True:
            self._clock.sleep(0.25)
            yield {"a": np.zeros((4, 3))}


@pytest.fixture
def slow(clock: HeldClock) -> Example:
    """An example that is slow on the clock at hand."""
    return cast("Example", Slow(clock))


def test_speed_and_start_are_real_time(slow: Example) -> None:
    """The time of the first batch is the start-up, and does not count in the speed."""
    values = measures.measure_speed(slow, SETTING).values
    assert values["elements_per_s"] == 16
    assert values["first_batch_s"] == 1
    assert values["bytes_per_worker"] == values["bytes_of_workers"] == 0


def test_steps_wait_for_their_batches(slow: Example) -> None:
    """A step of 0.5 s and a batch of 0.25 s in turns."""
    values = measures.measure_training(slow, Setting(batch=4, python_s_per_row=0.125)).values
    assert values["steps_per_s"] == pytest.approx(1 / 0.75)


def test_memory_is_read_when_it_has_stopped_growing(
    slow: Example, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Memory is read after the buffers have filled."""
    readings = iter([100.0, 200.0, 300.0, 300.5])
    monkeypatch.setattr(measures, "_bytes_of_all", lambda: next(readings))
    assert measures.measure_buffers(slow, SETTING).values == {"bytes_of_all": 300.5}
