"""The real loop watched from outside: what it waited for, what it forced, how deep it ran."""

from collections.abc import Iterator
from itertools import islice, repeat
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from netpipe.harness.clock import MonotonicClock
from netpipe.harness.emulated import EmulatedStep
from netpipe.harness.errors import MisuseError
from netpipe.harness.pull import Puller
from netpipe.harness.stepping import Stepper
from netpipe.harness.training import (
    TrainBlock,
    host_s_per_step,
    instruments_s_per_step,
    late_reading_loop,
    train_block,
)
from tests.harness.fakes import FakeClock

BATCH = {"x": np.zeros((2, 3), np.int32)}
STEPS, SKIPPED = 12, 5


def counting_step(state: int, _: Any) -> tuple[int, dict[str, jax.Array]]:
    """Count the steps, and be done at once."""
    return state + 1, {"loss": jnp.float32(state)}


def train(
    loop: Any, step: Any = counting_step, state: Any = 0, skipped: int = SKIPPED
) -> tuple[TrainBlock, Stepper]:
    """Run a loop over a step with a loader that takes no time."""
    clock = MonotonicClock()
    stepper = Stepper(lambda: (state, step), [BATCH, BATCH], clock)
    puller = Puller(lambda: repeat(BATCH), clock)
    return train_block(puller, stepper, loop, STEPS, skipped, clock), stepper


def train_emulated(loop: Any) -> TrainBlock:
    """Run a loop over emulated steps of 20 ms."""
    step = EmulatedStep(0.020)
    return train(loop, step, step.initial_state())[0]


def syncing_loop(batches: Iterator[Any], state: Any, step: Any) -> None:
    """Wait for every loss as soon as its step is dispatched."""
    for batch in batches:
        state, aux = step(state, batch)
        float(aux["loss"])


def test_a_loop_that_waits_for_every_loss_is_caught() -> None:
    """When each step is done before the next batch is asked for, the probe always sees it."""
    block = train_emulated(syncing_loop)
    assert (block.ready, block.asked) == (STEPS, STEPS)


def test_reading_a_step_late_forces_nothing() -> None:
    """The harness's own loop has a step in flight when it asks for a batch, and then another."""
    block = train_emulated(late_reading_loop)
    assert block.asked == STEPS
    assert block.ready < STEPS / 2  # all but none; a machine may pause for a step's time
    assert block.depth >= 2


def test_a_loop_that_reads_nothing_runs_ahead() -> None:
    """A loop without a read has more steps in flight than one that reads late."""

    def blind_loop(batches: Iterator[Any], state: Any, step: Any) -> None:
        for batch in batches:
            state, _ = step(state, batch)

    assert train_emulated(blind_loop).depth > 3


@pytest.mark.parametrize("skipped", [1, 2, SKIPPED])
def test_the_first_steps_are_left_out(skipped: int) -> None:
    """A block holds as many steps and waits as were asked for, after those not counted."""
    block, stepper = train(late_reading_loop, skipped=skipped)
    assert len(block.steps_s) == len(block.waits_s) == block.asked == STEPS
    assert stepper.state == STEPS + skipped
    assert block.s_per_step == pytest.approx(sum(block.steps_s) / STEPS)


def test_an_emulated_step_takes_its_time_in_the_loop() -> None:
    """Completions of steps lie at least as far apart, on average, as the device needs."""
    assert train_emulated(late_reading_loop).s_per_step >= 0.015


def test_the_next_block_goes_on_from_the_newest_state() -> None:
    """The state of an earlier call may be donated and dead, so the loop's own is not used."""
    clock = MonotonicClock()
    stepper = Stepper(lambda: (0, counting_step), [BATCH, BATCH], clock)
    puller = Puller(lambda: repeat(BATCH), clock)
    for _ in range(2):
        train_block(puller, stepper, late_reading_loop, STEPS, SKIPPED, clock)
    assert stepper.state == 2 * (STEPS + SKIPPED)


def _idle_loop(batches: Iterator[Any], _state: Any, _step: Any) -> None:
    list(batches)


def _lazy_loop(batches: Iterator[Any], state: Any, step: Any) -> None:
    for batch in islice(batches, SKIPPED + 1):
        state, _ = step(state, batch)


@pytest.mark.parametrize(
    ("loop", "words"),
    [
        (_idle_loop, f"given {STEPS + SKIPPED} batches and called it 0 times"),
        (_lazy_loop, f"given {SKIPPED + 1} batches and called it {SKIPPED + 1} times"),
    ],
)
def test_a_loop_must_call_the_step(loop: Any, words: str) -> None:
    """A loop that calls it seldom or never is misuse, with both counts."""
    with pytest.raises(MisuseError, match=words):
        train(loop)


@pytest.mark.parametrize("skipped", [1, SKIPPED])
def test_a_loop_may_stop_early(skipped: int) -> None:
    """What it did until then is what was measured, from two steps that count."""

    def short_loop(batches: Iterator[Any], state: Any, step: Any) -> None:
        late_reading_loop(islice(batches, skipped + 2), state, step)

    assert len(train(short_loop, skipped=skipped)[0].steps_s) == 2


def test_an_aux_without_an_array_is_misuse() -> None:
    """A step that returns no array leaves nothing to stamp."""
    with pytest.raises(MisuseError, match=r"jax\.Array in aux"):
        train(late_reading_loop, lambda state, _: (state, {"loss": 1.0}))


def test_the_loops_own_error_gets_out() -> None:
    """What the user's loop raises is what is told."""

    def broken_loop(batches: Iterator[Any], state: Any, step: Any) -> None:
        step(state, next(batches))
        raise KeyError("metric")

    with pytest.raises(KeyError, match="metric"):
        train(broken_loop)


def test_a_step_that_fails_on_the_device_is_heard() -> None:
    """An array that cannot be waited for ends the block with its own error."""

    def deleting_step(state: int, batch: Any) -> tuple[int, Any]:
        state, aux = counting_step(state, batch)
        aux["loss"].delete()
        return state, aux

    def short_loop(batches: Iterator[Any], state: Any, step: Any) -> None:
        step(state, next(batches))

    with pytest.raises(RuntimeError, match="deleted"):
        train(short_loop, deleting_step)


def warm_stepper(clock: FakeClock, step: Any = counting_step) -> Stepper:
    """Return a stepper that has done a step."""
    stepper = Stepper(lambda: (0, step), [BATCH, BATCH], clock)
    stepper.resident_s(1)
    return stepper


def test_the_loops_own_work_is_what_it_does_between_steps() -> None:
    """H runs from a step's return to the next request, without the step and the first time."""
    clock = FakeClock()

    def slow_step(state: int, batch: Any) -> tuple[int, Any]:
        clock.sleep(1.0)
        return counting_step(state, batch)

    def working_loop(batches: Iterator[Any], state: Any, step: Any) -> None:
        for number, batch in enumerate(batches):
            clock.sleep(5.0)
            state, aux = step(state, batch)
            clock.sleep(0.25 if number else 100.0)
            float(aux["loss"])

    stepper = warm_stepper(clock, slow_step)
    assert host_s_per_step(stepper, working_loop, 4, clock) == pytest.approx(0.25)
    assert stepper.state == 1


def test_a_loop_that_waits_for_results_does_no_work() -> None:
    """On results that are ready a sync takes no time, so that H tells work from waiting."""
    clock = FakeClock()
    assert host_s_per_step(warm_stepper(clock), syncing_loop, 4, clock) == 0.0


@pytest.mark.parametrize("steps", [0, 1, 2])
def test_a_loop_of_few_steps_has_what_work_it_did(steps: int) -> None:
    """A loop that stops early is timed as far as it went."""
    clock = FakeClock()

    def short_loop(batches: Iterator[Any], state: Any, step: Any) -> None:
        for batch in islice(batches, steps):
            state, _ = step(state, batch)
            clock.sleep(0.5)

    assert host_s_per_step(warm_stepper(clock), short_loop, 4, clock) == 0.0


def test_instruments_cost_what_they_add(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the watched step does beside a bare one is a cost of each step; the quickest counts."""
    clock = FakeClock()
    stepper = warm_stepper(clock)
    assert instruments_s_per_step(stepper, 10, 3, clock) == 0.0

    costs_s = [0.003, 0.002, 0.004, 0.0]

    def next_puller(*_: Any) -> Puller:
        costs_s.append(costs_s.pop(0))
        return Puller(lambda: repeat(BATCH), clock)

    def slow_look(_: Any) -> Any:
        clock.sleep(costs_s[-1])
        return jnp.float32(0)

    monkeypatch.setattr("netpipe.harness.training.first_array", slow_look)
    monkeypatch.setattr("netpipe.harness.training.Puller", next_puller)
    assert instruments_s_per_step(stepper, 10, 3, clock) == pytest.approx(0.002)


def test_a_loss_that_is_no_number_is_noticed() -> None:
    """The last loss of a block tells whether it is."""
    assert train(late_reading_loop)[0].finite

    def diverged(state: int, _: Any) -> tuple[int, Any]:
        return state, {"loss": jnp.float32(np.nan)}

    assert not train(late_reading_loop, diverged)[0].finite


def test_the_step_can_still_do_what_else_it_can() -> None:
    """A loop may ask a jitted step for what jax gives it, such as its lowering."""
    found: list[str] = []

    def asking_loop(batches: Iterator[Any], state: Any, step: Any) -> None:
        found.append(step.note)
        late_reading_loop(batches, state, step)

    def noted(state: int, batch: Any) -> tuple[int, Any]:
        return counting_step(state, batch)

    noted.note = "lowered"  # type: ignore[attr-defined]
    train(asking_loop, noted)
    assert found == ["lowered"]
