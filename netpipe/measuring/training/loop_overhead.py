"""The time that the trainer's loop and the harness's instruments add to a step."""

from collections.abc import Iterable, Iterator
from itertools import cycle, islice, repeat
from math import inf
from statistics import fmean
from typing import Any

import jax

from netpipe.measuring.loader_puller import Batch, Puller
from netpipe.measuring.training.step_runner import Aux, State, Step, StepRunner, copy_tree
from netpipe.measuring.training.training_loop import (
    BlockLength,
    Loop,
    WatchedBatches,
    WatchedStep,
    run_loop,
)


def measure_host_s_per_step(
    stepper: StepRunner, loop: Loop, steps: int, limit_s: float = inf
) -> float:
    """Return H: seconds of the loop's own work per batch.

    Batches and the results of steps are ready, so the whole time from one batch to the request for
    the next is the loop's own work. The loop gets no more batches after `limit_s` seconds.
    """
    step, clock = _ReadyStep(stepper), stepper.clock
    own_s: list[float] = []

    def batches() -> Iterator[Batch]:
        started = clock()
        for host_batch in islice(cycle(stepper.host_batches), steps + 1):
            # A copy, because the loop may change its batch.
            batch = copy_tree(host_batch)
            given, in_step_s = clock(), step.spent_s
            yield batch
            own_s.append(clock() - given - (step.spent_s - in_step_s))
            if clock() - started > limit_s:
                return

    run_loop(loop, batches(), stepper.state, step)
    # Skip the first step, in which the loop may compile.
    counted = own_s[1:] or own_s
    return max(0.0, fmean(counted)) if counted else 0.0


def measure_instruments_s_per_step(stepper: StepRunner, steps: int, repeats: int) -> float:
    """Return the seconds per step that the harness's instrumentation adds to a bare loop.

    Both loops run on a step that returns at once, so nothing hides their cost. The fastest of
    several runs counts, because other programs can only slow it down.
    """
    batch, aux, clock = stepper.host_batches[0], stepper.ready_aux, stepper.clock

    def ready_step(state: State, _: Batch) -> tuple[State, Aux]:
        return state, aux

    def bare_s() -> float:
        started = clock()
        _bare_loop(repeat(batch, steps), stepper.state, ready_step)
        return clock() - started

    def watched_s() -> float:
        watched = WatchedStep(stepper, ready_step)
        length = BlockLength(steps, skipped=0)
        batches = WatchedBatches(Puller(lambda: repeat(batch), clock), watched, length, clock)
        started = clock()
        _bare_loop(batches, stepper.state, watched)
        watched.wait_for_device()
        return clock() - started

    pairs_s = [(bare_s(), watched_s()) for _ in range(repeats)]
    added_s = min(watched for _, watched in pairs_s) - min(bare for bare, _ in pairs_s)
    return max(0.0, added_s / steps)


def _bare_loop(batches: Iterable[Batch], state: State, step: Step) -> None:
    for batch in batches:
        state, _ = step(state, batch)


class _ReadyStep:
    """A step that returns its state unchanged, and an aux that is ready."""

    def __init__(self, stepper: StepRunner) -> None:
        self.spent_s = 0.0
        self.wait = stepper.wait
        self._stepper = stepper

    def __call__(self, state: State, _: Batch) -> tuple[State, Aux]:
        started = self._stepper.clock()
        # A new copy, because reading the same array again would cost less.
        aux = jax.block_until_ready(copy_tree(self._stepper.ready_aux))
        self.spent_s += self._stepper.clock() - started
        return state, aux

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stepper.step, name)
