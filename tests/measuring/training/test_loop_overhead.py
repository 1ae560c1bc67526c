"""The work of a loop, and the cost of watching it, on steps that do nothing."""

from collections.abc import Iterator
from itertools import islice, repeat
from math import inf
from typing import Any

import jax.numpy as jnp
import pytest

from netpipe.measuring.loader_puller import Puller
from netpipe.measuring.training.loop_overhead import (
    measure_host_s_per_step,
    measure_instruments_s_per_step,
)
from netpipe.measuring.training.step_runner import StepRunner
from netpipe.measuring.training.training_loop import late_reading_loop
from tests.fakes import FakeClock
from tests.measuring.simulated import BATCH, counting_step, syncing_loop, working_loop


def warm_stepper(clock: FakeClock, step: Any = counting_step) -> StepRunner:
    """Return a stepper that has done a step."""
    stepper = StepRunner(lambda: (0, step), [BATCH, BATCH], clock)
    stepper.warm_up(limit_s=inf)
    return stepper


def test_the_loops_own_work_is_what_it_does_between_steps(clock: FakeClock) -> None:
    """H is the time from a batch to the next request, without the step and the first batch."""

    def slow_step(state: int, batch: Any) -> tuple[int, Any]:
        clock.sleep(1.0)
        return counting_step(state, batch)

    def both_sides(batches: Iterator[Any], state: Any, step: Any) -> None:
        for number, batch in enumerate(batches):
            clock.sleep(0.5)
            state, aux = step(state, batch)
            clock.sleep(0.25 if number else 100.0)
            float(aux["loss"])

    stepper = warm_stepper(clock, slow_step)
    before = stepper.state
    assert measure_host_s_per_step(stepper, both_sides, 4) == pytest.approx(0.75)
    assert stepper.state == before


def test_the_loop_waits_for_a_step_in_its_own_way(clock: FakeClock) -> None:
    """The harness's own loop uses the `wait` of the step."""
    waited: list[Any] = []

    def step(state: int, _: Any) -> tuple[int, str]:
        return state + 1, "no array"

    step.wait = waited.append  # type: ignore[attr-defined]
    stepper = warm_stepper(clock, step)
    waited.clear()
    assert measure_host_s_per_step(stepper, late_reading_loop, 4) == 0.0
    assert waited == ["no array"] * len(waited) != []


def test_a_loop_may_change_the_batch_it_is_given(clock: FakeClock) -> None:
    """It gets a new batch each time, as from a loader."""

    def consuming_loop(batches: Iterator[Any], state: Any, step: Any) -> None:
        for batch in batches:
            batch["x"] += 1
            assert (batch.pop("x") == 1).all()
            state, _ = step(state, batch)

    stepper = warm_stepper(clock)
    measure_host_s_per_step(stepper, consuming_loop, 6)
    assert (stepper.host_batches[0]["x"] == 0).all()


def test_a_loop_may_delete_what_it_has_read(clock: FakeClock) -> None:
    """Each aux is a new one, so it may be read or freed."""
    seen: list[int] = []

    def freeing_loop(batches: Iterator[Any], state: Any, step: Any) -> None:
        for batch in batches:
            state, aux = step(state, batch)
            seen.append(id(aux["loss"]))
            float(aux["loss"])
            aux["loss"].delete()

    measure_host_s_per_step(warm_stepper(clock), freeing_loop, 4)
    assert len(seen) == 5


def test_a_long_loop_is_given_up_in_time(clock: FakeClock) -> None:
    """After its limit, a slow loop gets no more batches."""
    own_s = measure_host_s_per_step(warm_stepper(clock), working_loop(clock, 3.0), 100, limit_s=8.0)
    assert own_s == pytest.approx(3.0)
    assert clock() == pytest.approx(9.0)


def test_a_loop_that_waits_for_results_does_no_work(clock: FakeClock) -> None:
    """A sync on ready results takes no time, so H is work and not waiting."""
    assert measure_host_s_per_step(warm_stepper(clock), syncing_loop, 4) == 0.0


@pytest.mark.parametrize(("steps", "work_s"), [(0, 0.0), (1, 0.0), (2, 0.5), (3, 0.5)])
def test_a_loop_of_few_steps_has_the_work_that_it_did(
    clock: FakeClock, steps: int, work_s: float
) -> None:
    """A loop that stops early is timed up to its last request."""

    def short_loop(batches: Iterator[Any], state: Any, step: Any) -> None:
        for batch in islice(batches, steps):
            state, _ = step(state, batch)
            clock.sleep(0.5)

    assert measure_host_s_per_step(warm_stepper(clock), short_loop, 4) == work_s


def test_instruments_cost_what_they_add(clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> None:
    """The difference of a watched and a bare step counts, by the fastest of the runs."""
    stepper = warm_stepper(clock)
    assert measure_instruments_s_per_step(stepper, 10, 3) == 0.0

    costs_s = [0.003, 0.002, 0.004, 0.0]

    def next_puller(*_: Any) -> Puller:
        costs_s.append(costs_s.pop(0))
        return Puller(lambda: repeat(BATCH), clock)

    def slow_look(_: Any) -> Any:
        clock.sleep(costs_s[-1])
        return jnp.float32(0)

    monkeypatch.setattr("netpipe.measuring.training.step_runner.first_array", slow_look)
    monkeypatch.setattr("netpipe.measuring.training.loop_overhead.Puller", next_puller)
    assert measure_instruments_s_per_step(stepper, 10, 3) == pytest.approx(0.002)
