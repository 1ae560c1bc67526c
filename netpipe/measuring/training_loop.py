"""The real loop, watched from outside: when its batches were asked for and its steps were done."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from math import inf
from queue import SimpleQueue
from typing import Any

import jax
import numpy as np

from netpipe.clock import Clock
from netpipe.errors import MisuseError
from netpipe.measuring.loader_puller import Batch, Puller
from netpipe.measuring.profiler_trace import (
    DEVICE,
    DISPATCH,
    LOOP,
    STEP,
    loading,
    mark,
    mark_step,
)
from netpipe.measuring.stack_sampler import StackSampler
from netpipe.measuring.stand_ins import EmulatedState
from netpipe.measuring.step_runner import (
    Aux,
    State,
    Step,
    StepRunner,
    compilation_count,
    first_array,
    is_finite,
    is_ready,
)
from netpipe.results.step_times import DeviceStep, StepTimes, timeline

_FEWEST_STEPS = 3
_IN_HAND = 1.5  # a loop that prefetches has been given more batches than it called the step

Loop = Callable[[Iterator[Batch], State, Step], object]


def late_reading_loop(batches: Iterator[Batch], state: State, step: Step) -> None:
    """Train as a careful trainer does: read each metric when the next step is on its way."""
    late: Aux = None
    for batch in batches:
        state, aux = step(state, batch)
        if late is not None:
            np.asarray(first_array(late))
        late = aux


@dataclass(frozen=True)
class TrainBlock:
    """A block of real training steps, the first few left out.

    Attributes:
        steps_s: Seconds between the completions of one step and the next.
        waits_s: Seconds that each step waited for its batch.
        asked: How often a batch was asked for.
        ready: How often the step before was done by then.
        depth: Most steps in flight at once.
        compilations: Compilations, the first steps' left out: each run of a loop may have some.
        finite: Whether the last loss was a number.
        timeline: When the last steps asked, got, called and were done.
        exposed_s: Seconds from requests that found the step done to the next call of the step:
            the device has nothing to do in them.
    """

    steps_s: tuple[float, ...]
    waits_s: tuple[float, ...]
    asked: int
    ready: int
    depth: int
    compilations: int
    finite: bool
    timeline: tuple[StepTimes, ...] = ()
    exposed_s: float = 0.0

    @property
    def s_per_step(self) -> float:
        """Wall seconds of one step."""
        return sum(self.steps_s) / len(self.steps_s)

    @property
    def exposed_s_per_step(self) -> float:
        """Seconds of a step in which the device idles because the step was done at the request."""
        return self.exposed_s / len(self.steps_s)


@dataclass(frozen=True)
class BlockLength:
    """How long a block of real steps is.

    Attributes:
        steps: Steps to count.
        skipped: Steps before them, at least 1, until loading and computing overlap.
        limit_s: Seconds after which no more batches are given, once there are a few steps; none
            are either where the loader's epoch is known to end.
    """

    steps: int
    skipped: int
    limit_s: float = inf


def run_loop(loop: Loop, batches: Iterator[Batch], state: State, step: Step) -> None:
    """Run a loop; one that takes its batches with `next` is ended by the last one."""
    with suppress(StopIteration):
        loop(batches, state, step)


def run_train_block(
    puller: Puller,
    stepper: StepRunner,
    loop: Loop,
    length: BlockLength,
    clock: Clock,
    sampler: StackSampler | None = None,
) -> TrainBlock:
    """Run `loop` over some batches.

    Args:
        puller: The loader.
        stepper: The state and the step.
        loop: The trainer's.
        length: How many.
        clock: Seconds.
        sampler: Looks where the loop stands still; not in a block whose times count.

    Raises:
        MisuseError: The loop does not call the step once a batch.
    """
    watched = WatchedStep(stepper, clock)
    batches = WatchedBatches(puller, watched, length, clock, sampler)
    try:
        run_loop(loop, iter(batches), stepper.state, watched)
    finally:
        device_steps = watched.completed()
    if batches.failure is not None:  # the loop may have taken it for an end
        raise batches.failure
    skipped, called = length.skipped, len(device_steps)
    if not batches.given <= _IN_HAND * called <= _IN_HAND * batches.given:
        raise MisuseError(
            f"loop(batches, state, step) must call step once a batch; it was given "
            f"{batches.given} batches and called it {called} times"
        )
    if called < skipped + 2:
        raise MisuseError(
            f"loop(batches, state, step) must go on while there are batches; it stopped after "
            f"{called} steps"
        )
    return TrainBlock(
        steps_s=tuple(np.diff([one.done_s for one in device_steps[skipped - 1 :]]).tolist()),
        waits_s=tuple(batches.waits_s[skipped:]),
        asked=batches.asked,
        ready=batches.ready,
        depth=watched.depth,
        compilations=batches.compilations(),
        finite=is_finite(first_array(watched.aux)),
        timeline=timeline(
            batches.asked_s, batches.waits_s, watched.dispatched_s, device_steps, skipped
        ),
        exposed_s=watched.exposed_s,
    )


class WatchedStep:
    """A step that keeps the state, and stamps the completion of every call from a side thread.

    What else the step can do is left to it.
    """

    def __init__(self, stepper: StepRunner, clock: Clock, step: Step | None = None) -> None:
        self.aux: Aux = None
        self.latest: jax.Array | None = None
        self.depth = 0
        self.dispatched_s: list[float] = []
        self.idle_since_s: float | None = None
        self.exposed_s = 0.0
        self._stepper = stepper
        self._step = step or stepper.step
        self._clock = clock
        self._called_s: list[float] = []
        self._done_s: list[float] = []
        self._emulated: list[DeviceStep] = []
        self._pending: SimpleQueue[jax.Array | None] = SimpleQueue()
        self._thread = ThreadPoolExecutor(1, "netpipe-completion-stamps")
        self._stamping = self._thread.submit(self._stamp)

    def __call__(self, state: State, batch: Batch) -> tuple[State, Any]:
        """Call the step, and note that it was."""
        called_s = self._clock()
        if self.idle_since_s is not None:
            self.exposed_s += called_s - self.idle_since_s
            self.idle_since_s = None
        with mark(DISPATCH):
            state, aux = self._step(state, batch)
        self.dispatched_s.append(self._clock())
        self._called_s.append(called_s)
        if isinstance(state, EmulatedState) and state.device_step is not None:
            self._emulated.append(state.device_step)
        # The state handed in may have been donated: only the newest is alive.
        self._stepper.state = state
        self.aux, self.latest = aux, first_array(aux)
        self._pending.put(self.latest)
        self.depth = max(self.depth, len(self.dispatched_s) - len(self._done_s))
        return state, aux

    def __getattr__(self, name: str) -> Any:
        return getattr(self._step, name)

    def _stamp(self) -> None:
        while (array := self._pending.get()) is not None:
            if array.is_deleted():
                raise MisuseError(
                    "the loop deletes or donates what the step returned before it is looked at; "
                    "let it live until the next step"
                )
            with mark_step(DEVICE, len(self._done_s)):
                array.block_until_ready()
            self._done_s.append(self._clock())

    def completed(self) -> list[DeviceStep]:
        """Wait for the last step and return when the device could begin each and had done it.

        The side thread sees an end late where the loop holds Python's lock; an emulated device
        knows its own.
        """
        self._pending.put(None)
        self._thread.shutdown()
        self._stamping.result()
        if len(self._emulated) == len(self._done_s):
            return self._emulated
        return list(map(DeviceStep, self._called_s, self._done_s))


class WatchedBatches:
    """A finite run of batches that notes how long each was waited for.

    Before it asks for a batch it looks whether the step before is done: it is, when something in
    the loop has waited for it.
    """

    def __init__(
        self,
        puller: Puller,
        step: WatchedStep,
        length: BlockLength,
        clock: Clock,
        sampler: StackSampler | None = None,
    ) -> None:
        self.given = 0
        self.asked = 0
        self.ready = 0
        self.asked_s: list[float] = []
        self.waits_s: list[float] = []
        self.failure: Exception | None = None
        self._puller = puller
        self._step = step
        self._length = length
        self._clock = clock
        self._sampler = sampler
        self._compiled = compilation_count()
        self._compiled_before = self._compiled()

    def __iter__(self) -> Iterator[Batch]:
        started = self._clock()
        while not self._is_enough(started):
            with mark_step(STEP, self.given):
                batch = self._next()
                with mark(LOOP):
                    yield batch

    def _next(self) -> Batch:
        if self.given == self._length.skipped:
            self._compiled_before = self._compiled()
        if self._step.latest is not None and self.given >= self._length.skipped:
            self._look(is_ready(self._step.latest))
        batch = self._pull()
        self.given += 1
        if self._sampler is not None:
            self._sampler.begin()
        return batch

    def _is_enough(self, started: float) -> bool:
        if self.given >= self._length.skipped + self._length.steps:
            return True
        few = self.given < self._length.skipped + _FEWEST_STEPS
        late = self._clock() - started > self._length.limit_s
        return not few and (late or not self._puller.epoch_has(1))

    def _pull(self) -> Batch:
        try:
            with loading():
                batch, wait_s = self._puller.pull()
        except Exception as error:
            self.failure = error
            raise
        # As the wait does, this leaves out what starting the loader again took.
        self.asked_s.append(self._clock() - wait_s)
        self.waits_s.append(wait_s)
        return batch

    def compilations(self) -> int:
        """Return how many there were since the steps count."""
        return self._compiled() - self._compiled_before

    def _look(self, ready: bool) -> None:
        self.asked += 1
        self.ready += ready
        if ready:
            self._step.idle_since_s = self._clock()
        if self._sampler is not None:
            self._sampler.end(counts=ready)
