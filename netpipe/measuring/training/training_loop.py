"""The trainer's loop, observed from outside: its requests for batches and the ends of its steps."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from inspect import getattr_static, iscoroutine, isgenerator
from math import inf
from queue import SimpleQueue
from typing import Any

import numpy as np

from netpipe.clock import Clock
from netpipe.errors import MisuseError
from netpipe.measuring.loader_puller import Batch, Puller
from netpipe.measuring.training.emulated_step import EmulatedStep
from netpipe.measuring.training.profiler_trace import (
    DEVICE,
    DISPATCH,
    LOADING,
    LOOP,
    STEP,
    mark,
    mark_step,
)
from netpipe.measuring.training.stack_sampler import StackSampler
from netpipe.measuring.training.step_runner import (
    Aux,
    Done,
    State,
    Step,
    StepRunner,
    compilation_count,
    count_batch,
    first_array,
    is_finite,
    is_ready,
)
from netpipe.measuring.training.token_counts import Counted
from netpipe.results.step_times import DeviceStep, StepTimes, timeline

# Minimum number of counted steps in a block that is cut short.
_MIN_STEPS = 3
# A loop that prefetches takes batches ahead of its steps.
_MAX_BATCHES_PER_STEP = 1.5

Loop = Callable[[Iterator[Batch], State, Step], object]


def late_reading_loop(batches: Iterator[Batch], state: State, step: Step) -> None:
    """Train, and read each metric after the next step is dispatched, as a careful trainer does."""
    read = getattr_static(step, "wait", None) or (lambda aux: np.asarray(first_array(aux)))
    late: Aux = None
    for batch in batches:
        state, aux = step(state, batch)
        if late is not None:
            read(late)
        late = aux


@dataclass(frozen=True)
class TrainBlock:
    """A block of real training steps, without the skipped ones.

    Attributes:
        steps_s: Seconds from the completion of each step to that of the next.
        asked: Number of requests for a batch.
        ready: Number of requests at which the previous step was done.
        exposed_s: Idle seconds of the device: from requests that found the step done to the next
            call of the step.
        counted: The tokens of the last batch; None if they cannot be counted.
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
    counted: Counted | None = None

    @property
    def s_per_step(self) -> float:
        """Mean wall seconds per step."""
        return sum(self.steps_s) / len(self.steps_s)


@dataclass(frozen=True)
class BlockLength:
    """The length of a block of real steps.

    The first `skipped` steps, at least 1, do not count, as loading and computing do not overlap
    yet. `steps` more do; after a few of them, the block also ends at `limit_s` or with the epoch.
    """

    steps: int
    skipped: int
    limit_s: float = inf


def run_loop(loop: Loop, batches: Iterator[Batch], state: State, step: Step) -> None:
    """Run a loop; if it calls `next` itself, it may end with StopIteration."""
    with suppress(StopIteration):
        returned = loop(batches, state, step)
        if isgenerator(returned) or iscoroutine(returned):
            returned.close()
            raise MisuseError(
                "loop(batches, state, step) must train when it is called; found a "
                f"{type(returned).__name__}. Call it in a function that runs it"
            )


def run_train_block(
    puller: Puller,
    stepper: StepRunner,
    loop: Loop,
    length: BlockLength,
    sampler: StackSampler | None = None,
) -> TrainBlock:
    """Run the trainer's loop over a block of batches; with a sampler, the times are useless.

    Raises:
        MisuseError: The loop does not call the step once per batch, or ends too early.
    """
    watched = WatchedStep(stepper)
    batches = WatchedBatches(puller, watched, length, stepper.clock, sampler)
    try:
        run_loop(loop, iter(batches), stepper.state, watched)
    finally:
        device_steps = watched.wait_for_device()
    # The loop may have mistaken a failure of the loader for the end of the batches.
    if batches.failure is not None:
        raise batches.failure
    given, called, skipped = batches.given, len(device_steps), length.skipped
    if not given <= _MAX_BATCHES_PER_STEP * called <= _MAX_BATCHES_PER_STEP * given:
        raise MisuseError(
            f"loop(batches, state, step) must call step once a batch; it was given {given} batches "
            f"and called it {called} times"
        )
    if called < skipped + 2:
        raise MisuseError(
            "loop(batches, state, step) must go on while there are batches; it stopped after "
            f"{called} steps"
        )
    return TrainBlock(
        steps_s=tuple(np.diff([step.done_s for step in device_steps[skipped - 1 :]]).tolist()),
        waits_s=tuple(batches.waits_s[skipped:]),
        asked=batches.asked,
        ready=batches.ready,
        depth=watched.depth,
        compilations=stepper.compilations() - batches.compiled_before,
        finite=watched.latest is None or is_finite(watched.latest),
        timeline=timeline(
            batches.asked_s, batches.waits_s, watched.dispatched_s, device_steps, skipped
        ),
        exposed_s=watched.exposed_s,
        counted=count_batch(batches.latest),
    )


class WatchedStep:
    """Wraps the step: keeps the latest state, and timestamps each completion in a side thread.

    Other attributes are those of the step itself.
    """

    def __init__(self, stepper: StepRunner, step: Step | None = None) -> None:
        self.latest: Done | None = None
        self.depth, self.exposed_s = 0, 0.0
        self.dispatched_s: list[float] = []
        self.idle_since_s: float | None = None
        self.wait = stepper.wait
        self._stepper, self._clock = stepper, stepper.clock
        self._step = step or stepper.step
        self._called_s: list[float] = []
        self._done_s: list[float] = []
        self._device_steps: list[DeviceStep] = []
        self._dispatched: SimpleQueue[Done | None] = SimpleQueue()
        self._thread = ThreadPoolExecutor(1, "netpipe-completion-stamps")
        self._stamping = self._thread.submit(self._stamp_completions)

    def __call__(self, state: State, batch: Batch) -> tuple[State, Any]:
        """Call the step, and record the times of the call."""
        called_s = self._clock()
        if self.idle_since_s is not None:
            self.exposed_s += called_s - self.idle_since_s
            self.idle_since_s = None
        with mark(DISPATCH):
            state, aux = self._step(state, batch)
        self.dispatched_s.append(self._clock())
        self._called_s.append(called_s)
        # Keep the new state, because the step may have donated the old one.
        self._stepper.state = state
        self.latest = self._stepper.find_done(aux)
        if isinstance(self._step, EmulatedStep):
            self._device_steps.append(self._step.device_step)
        self._dispatched.put(self.latest)
        self.depth = max(self.depth, len(self.dispatched_s) - len(self._done_s))
        return state, aux

    def __getattr__(self, name: str) -> Any:
        return getattr(self._step, name)

    def _stamp_completions(self) -> None:
        while (array := self._dispatched.get()) is not None:
            if array.is_deleted():
                raise MisuseError(
                    "the loop deletes or donates what the step returned before its completion is "
                    "seen; keep it until the next step"
                )
            with mark_step(DEVICE, step_num=len(self._done_s)):
                array.block_until_ready()
            self._done_s.append(self._clock())

    def wait_for_device(self) -> list[DeviceStep]:
        """Wait for the last step; return each step's earliest start and its end on the device.

        The side thread sees completions late while the loop holds Python's lock, so an emulated
        device reports its own exact times.
        """
        self._dispatched.put(None)
        self._thread.shutdown()
        self._stamping.result()
        return self._device_steps or list(map(DeviceStep, self._called_s, self._done_s))


@dataclass
class WatchedBatches:
    """The batches of a block; records how long the loop waits for each.

    Each request probes whether the previous step is done, a sign that the loop waited for it.
    """

    puller: Puller
    step: WatchedStep
    length: BlockLength
    clock: Clock
    sampler: StackSampler | None = None
    given: int = 0
    asked: int = 0
    ready: int = 0
    asked_s: list[float] = field(default_factory=list)
    waits_s: list[float] = field(default_factory=list)
    compiled_before: int = 0
    failure: Exception | None = None
    latest: Batch = None

    def __iter__(self) -> Iterator[Batch]:
        started, compilations = self.clock(), compilation_count()
        while not self._is_over(started):
            with mark_step(STEP, step_num=self.given):
                if self.given == self.length.skipped:
                    self.compiled_before = compilations()
                if self.step.latest is not None and self.given >= self.length.skipped:
                    self._probe(self.step.latest)
                batch = self.latest = self._pull()
                self.given += 1
                if self.sampler is not None:
                    self.sampler.begin()
                with mark(LOOP):
                    yield batch

    def _is_over(self, started: float) -> bool:
        counted = self.given - self.length.skipped
        late = self.clock() - started > self.length.limit_s
        ends = late or not self.puller.epoch_has(1)
        return counted >= self.length.steps or (counted >= _MIN_STEPS and ends)

    def _probe(self, latest: Done) -> None:
        ready = is_ready(latest)
        self.asked += 1
        self.ready += ready
        if ready:
            self.step.idle_since_s = self.clock()
        if self.sampler is not None:
            self.sampler.end(counts=ready)

    def _pull(self) -> Batch:
        try:
            with mark(LOADING):
                batch, wait_s = self.puller.pull()
        except Exception as error:
            self.failure = error
            raise
        # Like the wait, this excludes a restart of the loader.
        self.asked_s.append(self.clock() - wait_s)
        self.waits_s.append(wait_s)
        return batch
