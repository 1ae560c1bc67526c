"""What the trainer's loop and the harness's instruments do themselves, on steps that do nothing."""

from collections.abc import Iterable, Iterator
from itertools import cycle, islice, repeat
from math import inf
from statistics import fmean
from typing import Any

import jax

from netpipe.clock import Clock
from netpipe.measuring.loader_puller import Batch, Puller
from netpipe.measuring.step_runner import Aux, State, Step, StepRunner, copy_tree
from netpipe.measuring.training_loop import (
    BlockLength,
    Loop,
    WatchedBatches,
    WatchedStep,
    run_loop,
)


def measure_host_s_per_step(
    stepper: StepRunner, loop: Loop, steps: int, clock: Clock, limit_s: float = inf
) -> float:
    """Return H: seconds of the loop's own work on a batch, when there is nothing to wait for.

    The loop runs on batches that are there and on a step that returns results which are ready:
    what it does from one batch to the request for the next is then its own, and no waiting.

    Args:
        stepper: What gives the state, the batches, and results that are ready.
        loop: The trainer's.
        steps: Steps to time, at least 1.
        clock: Seconds.
        limit_s: Seconds after which no more batches are given.
    """
    step = _ReadyStep(stepper, clock)
    own_s: list[float] = []

    def batches() -> Iterator[Batch]:
        started = clock()
        for host_batch in islice(cycle(stepper.host_batches), steps + 1):
            batch = copy_tree(host_batch)  # a loop may change what it is given
            given, in_step_s = clock(), step.spent_s
            yield batch
            own_s.append(clock() - given - (step.spent_s - in_step_s))
            if clock() - started > limit_s:
                return

    run_loop(loop, batches(), stepper.state, step)
    # The first time, a loop may still compile what it does with a result.
    counted = own_s[1:] or own_s
    return max(0.0, fmean(counted)) if counted else 0.0


def measure_instruments_s_per_step(
    stepper: StepRunner, steps: int, looks: int, clock: Clock
) -> float:
    """Return the seconds a step that the harness's instruments add to a bare loop.

    Both loops run on a step that returns at once, so that nothing hides what they cost. The
    quickest of several looks at each counts: what else the machine does only adds to it.
    """
    batch, aux = stepper.host_batches[0], stepper.ready_aux()

    def ready_step(state: State, _: Batch) -> tuple[State, Aux]:
        return state, aux

    def bare_s() -> float:
        started = clock()
        _bare_loop(repeat(batch, steps), stepper.state, ready_step)
        return clock() - started

    def watched_s() -> float:
        watched = WatchedStep(stepper, clock, ready_step)
        length = BlockLength(steps, skipped=0)
        batches = WatchedBatches(Puller(lambda: repeat(batch), clock), watched, length, clock)
        started = clock()
        _bare_loop(batches, stepper.state, watched)
        watched.completed()
        return clock() - started

    seen_s = [(bare_s(), watched_s()) for _ in range(looks)]
    added_s = min(watched for _, watched in seen_s) - min(bare for bare, _ in seen_s)
    return max(0.0, added_s / steps)


def _bare_loop(batches: Iterable[Batch], state: State, step: Step) -> None:
    for batch in batches:
        state, _ = step(state, batch)


class _ReadyStep:
    """A step that does nothing: it returns its state, and an aux that is ready.

    Each aux is a new one, for reading one again costs less than the first time.
    """

    def __init__(self, stepper: StepRunner, clock: Clock) -> None:
        self.spent_s = 0.0
        self._step = stepper.step
        self._aux = stepper.ready_aux()
        self._clock = clock

    def __call__(self, state: State, _: Batch) -> tuple[State, Aux]:
        started = self._clock()
        aux = jax.block_until_ready(copy_tree(self._aux))
        self.spent_s += self._clock() - started
        return state, aux

    def __getattr__(self, name: str) -> Any:
        return getattr(self._step, name)
