"""The real loop observed from outside: its waits, its syncs, its depth."""

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice, repeat
from math import inf
from statistics import fmean
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from netpipe.clock import Clock
from netpipe.errors import LoaderFailedError, MisuseError
from netpipe.measuring.loader_puller import Puller
from netpipe.measuring.training import training_loop
from netpipe.measuring.training.emulated_step import EmulatedStep
from netpipe.measuring.training.step_runner import StepRunner
from netpipe.measuring.training.training_loop import (
    BlockLength,
    TrainBlock,
    late_reading_loop,
    run_train_block,
)
from netpipe.reporting.plots.timeline import build_timeline
from tests.fakes import FakeClock
from tests.measuring.simulated import (
    BATCH,
    HeldDevice,
    counting_step,
    paced,
    syncing_loop,
    working_loop,
)

STEPS, SKIPPED = 12, 5


def train(
    loop: Any,
    step: Any = counting_step,
    state: Any = 0,
    skipped: int = SKIPPED,
    loader: Any = lambda: repeat(BATCH),
    clock: Any = None,
    limit_s: float = inf,
    blocks: int = 1,
) -> tuple[TrainBlock, StepRunner]:
    """Run a loop over a step with a loader that takes no time."""
    clock = clock or Clock()
    stepper = StepRunner(lambda: (state, step), [BATCH, BATCH], clock)
    puller = Puller(loader, clock)
    for _ in range(blocks):
        block = run_train_block(puller, stepper, loop, BlockLength(STEPS, skipped, limit_s))
    return block, stepper


def train_emulated(loop: Any) -> TrainBlock:
    """Run a loop over emulated steps of 20 ms."""
    step = EmulatedStep(0.020)
    return train(loop, step, step.initial_state())[0]


def test_a_loop_that_waits_for_every_loss_is_caught() -> None:
    """The probe finds each step done before the next request."""
    block = train_emulated(syncing_loop)
    assert (block.ready, block.asked) == (STEPS, STEPS)


def train_held(monkeypatch: pytest.MonkeyPatch, loop: Any, *, ends_behind: bool) -> TrainBlock:
    """Run a loop; with `ends_behind`, a step ends when the next one is called, else after all."""
    device, watched = HeldDevice(monkeypatch), training_loop.WatchedStep
    call, wait_for_device = watched.__call__, watched.wait_for_device

    def call_and_end(step: Any, *arguments: Any) -> Any:
        called = call(step, *arguments)
        if ends_behind and len(step.dispatched_s) > 1:
            device.end()
        return called

    def end_all(step: Any) -> Any:
        device.end(STEPS + SKIPPED)
        return wait_for_device(step)

    monkeypatch.setattr(watched, "__call__", call_and_end)
    monkeypatch.setattr(watched, "wait_for_device", end_all)
    return train_emulated(loop)


def test_reading_a_step_late_forces_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The harness's own loop has a step in flight when it asks for a batch."""
    block = train_held(monkeypatch, late_reading_loop, ends_behind=True)
    assert (block.ready, block.asked) == (0, STEPS)
    assert block.depth >= 2
    assert block.s_per_step == pytest.approx(0.020)


def test_a_loop_that_reads_nothing_runs_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    """A loop without a read has all its steps in flight, as far as the runtime allows."""

    def blind_loop(batches: Iterator[Any], state: Any, step: Any) -> None:
        for batch in batches:
            state, _ = step(state, batch)

    assert train_held(monkeypatch, blind_loop, ends_behind=False).depth == STEPS + SKIPPED


@pytest.mark.parametrize("skipped", [1, 2, SKIPPED])
def test_the_first_steps_are_left_out(skipped: int) -> None:
    """A block has the requested number of steps and waits after the skipped ones."""
    block, stepper = train(late_reading_loop, skipped=skipped)
    assert len(block.steps_s) == len(block.waits_s) == block.asked == STEPS
    assert stepper.state == STEPS + skipped
    assert block.s_per_step == pytest.approx(sum(block.steps_s) / STEPS)


def test_an_emulated_device_says_itself_when_it_works() -> None:
    """The timeline shows the device's own times, however late the host sees the end of a step."""

    def selfish() -> Iterator[Any]:
        while True:
            begun_s = time.monotonic()
            # This holds Python's lock, so no other thread sees a step end.
            while time.monotonic() < begun_s + 0.022:
                pass
            yield BATCH

    clock, step = Clock(), EmulatedStep(0.010)
    stepper = StepRunner(lambda: (step.initial_state(), step), [BATCH, BATCH], clock)
    stepper.warm_up(60.0)
    block = run_train_block(Puller(selfish, clock), stepper, syncing_loop, BlockLength(STEPS, 1))
    shown = build_timeline(block.timeline)
    assert [span.length_s for span in shown.working] == pytest.approx([0.010] * STEPS, abs=1e-6)
    assert shown.idle_fraction == pytest.approx(1 - 0.010 / fmean(block.steps_s[1:]), abs=1e-6)
    assert shown.idle_fraction > 0.5  # loading alone takes 22 ms


def test_a_step_is_only_called() -> None:
    """No attribute is read of a step that looks attributes up in its parameters."""

    class Step:
        def __call__(self, state: int, batch: Any) -> tuple[int, Any]:
            return counting_step(state, batch)

        def __getattr__(self, name: str) -> Any:
            return {"weights": 0}[name]

    assert train(late_reading_loop, Step())[0].asked == STEPS


def test_the_next_block_goes_on_from_the_newest_state() -> None:
    """The state of an earlier call may be donated, so the newest one is used."""
    assert train(late_reading_loop, blocks=2)[1].state == 2 * (STEPS + SKIPPED)


def _idle_loop(batches: Iterator[Any], _state: Any, _step: Any) -> None:
    list(batches)


def _lazy_loop(batches: Iterator[Any], state: Any, step: Any) -> None:
    for batch in islice(batches, SKIPPED + 1):
        state, _ = step(state, batch)


def _twice_loop(batches: Iterator[Any], state: Any, step: Any) -> None:
    for batch in batches:
        state, _ = step(state, batch)
        state, _ = step(state, batch)


@pytest.mark.parametrize(
    ("loop", "words"),
    [
        (_idle_loop, f"given {STEPS + SKIPPED} batches and called it 0 times"),
        (_lazy_loop, f"it stopped after {SKIPPED + 1} steps"),
        (
            _twice_loop,
            f"given {STEPS + SKIPPED} batches and called it {2 * (STEPS + SKIPPED)} times",
        ),
    ],
)
def test_a_loop_must_call_the_step(loop: Any, words: str) -> None:
    """A loop that calls it never, too few times or twice a batch is misuse."""
    with pytest.raises(MisuseError, match=words):
        train(loop)


@pytest.mark.parametrize("skipped", [1, SKIPPED])
def test_a_loop_may_stop_early(skipped: int) -> None:
    """The measured steps are those until then, at least two."""

    def short_loop(batches: Iterator[Any], state: Any, step: Any) -> None:
        late_reading_loop(islice(batches, skipped + 2), state, step)

    assert len(train(short_loop, skipped=skipped)[0].steps_s) == 2


def test_the_loops_own_error_gets_out() -> None:
    """An error of the user's loop is raised as it is."""

    def broken_loop(batches: Iterator[Any], state: Any, step: Any) -> None:
        step(state, next(batches))
        raise KeyError("metric")

    with pytest.raises(KeyError, match="metric"):
        train(broken_loop)


def test_results_that_are_deleted_too_soon_are_misuse() -> None:
    """A loss that is deleted before its completion is seen ends the block with an error."""

    def deleting_step(state: int, batch: Any) -> tuple[int, Any]:
        state, aux = counting_step(state, batch)
        aux["loss"].delete()
        return state, aux

    def short_loop(batches: Iterator[Any], state: Any, step: Any) -> None:
        step(state, next(batches))

    with pytest.raises(MisuseError, match="deletes or donates"):
        train(short_loop, deleting_step)


def test_other_attributes_of_the_step_are_kept() -> None:
    """A loop may use other attributes of a jitted step, such as its lowering."""
    found: list[str] = []

    def asking_loop(batches: Iterator[Any], state: Any, step: Any) -> None:
        found.append(step.note)
        late_reading_loop(batches, state, step)

    def noted(state: int, batch: Any) -> tuple[int, Any]:
        return counting_step(state, batch)

    noted.note = "lowered"  # type: ignore[attr-defined]
    train(asking_loop, noted)
    assert found == ["lowered"]


@pytest.mark.parametrize(
    ("aux", "finite"),
    [
        ({"bias": -np.inf, "loss": 1.0}, True),
        ({"accuracy": 0.0, "train_loss": np.nan}, False),
    ],
)
def test_a_loss_that_is_not_a_number_is_noticed(aux: dict[str, float], *, finite: bool) -> None:
    """The last result called loss must be a number; others need not be."""
    made = {name: jnp.float32(value) for name, value in aux.items()}
    assert train(late_reading_loop, lambda state, _: (state, made))[0].finite is finite


def test_a_loop_that_swallows_the_loaders_failure_does_not_hide_it() -> None:
    """An error of the loader is raised, although the loop took it for the end."""

    def deaf_loop(batches: Iterator[Any], state: Any, step: Any) -> None:
        with suppress(Exception):
            late_reading_loop(batches, state, step)

    def failing() -> Iterator[Any]:
        yield from [BATCH] * (SKIPPED + 6)
        raise OSError("disk gone")

    with pytest.raises(LoaderFailedError, match="disk gone"):
        train(deaf_loop, loader=failing)


def test_only_what_compiles_while_steps_count_is_counted() -> None:
    """Compilations in the skipped steps do not count."""
    shapes = iter(range(3, 1000))

    def compiling_loop(compiles: Callable[[int], bool]) -> Any:
        def loop(batches: Iterator[Any], state: Any, step: Any) -> None:
            for number, batch in enumerate(batches):
                state, _ = step(state, batch)
                if compiles(number):
                    jax.jit(jnp.tanh)(np.zeros(next(shapes), np.float32))

        return loop

    assert train(compiling_loop(lambda number: number < SKIPPED))[0].compilations == 0
    assert train(compiling_loop(lambda number: number >= SKIPPED))[0].compilations == STEPS


@pytest.mark.parametrize(("limit_s", "counted"), [(20.0, 5), (0.0, 3)])
def test_a_block_ends_in_time(clock: FakeClock, limit_s: float, counted: int) -> None:
    """After its limit the loop gets no more batches, once three count."""
    loop = working_loop(clock, 3.0)  # the seventh batch comes after 18 s, an eighth after 21 s
    assert len(train(loop, skipped=2, clock=clock, limit_s=limit_s)[0].waits_s) == counted


@pytest.mark.parametrize(("is_done", "exposed_s"), [(True, 0.5), (False, 0.0)])
def test_the_idle_time_after_a_sync_is_measured(
    clock: FakeClock, monkeypatch: pytest.MonkeyPatch, is_done: bool, exposed_s: float
) -> None:
    """If a step is done at the request, the device idles until the next call of the step."""
    monkeypatch.setattr(training_loop, "is_ready", lambda _: is_done)

    def preparing_loop(batches: Iterator[Any], state: Any, step: Any) -> None:
        for batch in batches:
            clock.sleep(0.1)  # between the batch and the step: a transfer
            state, _ = step(state, batch)
            clock.sleep(3.0)  # beside the step, until the sync

    block, _ = train(preparing_loop, loader=lambda: paced(clock, repeat(0.4), BATCH), clock=clock)
    assert block.exposed_s / len(block.steps_s) == pytest.approx(exposed_s)


def test_a_loop_may_take_its_batches_with_next() -> None:
    """Such an endless loop ends with the last batch."""

    def endless_loop(batches: Iterator[Any], state: Any, step: Any) -> None:
        while True:
            state, _ = step(state, next(batches))

    assert len(train(endless_loop)[0].steps_s) == STEPS


def _generating_loop(batches: Iterator[Any], state: Any, step: Any) -> Iterator[Any]:
    for batch in batches:
        state, aux = step(state, batch)
        yield aux


async def _awaiting_loop(batches: Iterator[Any], state: Any, step: Any) -> None:
    late_reading_loop(batches, state, step)


@pytest.mark.parametrize(
    ("loop", "kind"), [(_generating_loop, "generator"), (_awaiting_loop, "coroutine")]
)
def test_a_loop_must_train_when_it_is_called(loop: Any, kind: str) -> None:
    """A generator or an async function does nothing yet."""
    with pytest.raises(MisuseError, match=f"found a {kind}. Call it in a function that runs it"):
        train(loop)
