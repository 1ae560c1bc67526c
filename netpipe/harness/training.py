"""The real loop, watched from outside: when its batches were asked for and its steps were done."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import cycle, islice, repeat
from queue import SimpleQueue
from statistics import fmean
from typing import Any

import jax
import numpy as np

from netpipe.harness.blocking import StackSampler
from netpipe.harness.clock import Clock
from netpipe.harness.errors import MisuseError
from netpipe.harness.pull import Batch, Puller
from netpipe.harness.stepping import Aux, State, Step, Stepper, first_array, is_finite, is_ready
from netpipe.harness.trace import loading

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
        finite: Whether the last loss was a number.
    """

    steps_s: tuple[float, ...]
    waits_s: tuple[float, ...]
    asked: int
    ready: int
    depth: int
    finite: bool

    @property
    def s_per_step(self) -> float:
        """Wall seconds of one step."""
        return sum(self.steps_s) / len(self.steps_s)


def train_block(
    puller: Puller,
    stepper: Stepper,
    loop: Loop,
    steps: int,
    skipped: int,
    clock: Clock,
    sampler: StackSampler | None = None,
) -> TrainBlock:
    """Run `loop` over some batches.

    Args:
        puller: The loader.
        stepper: The state and the step.
        loop: The trainer's.
        steps: Steps to count.
        skipped: Steps before them, at least 1, until loading and computing overlap.
        clock: Seconds.
        sampler: Looks where the loop stands still; not in a block whose times count.

    Raises:
        MisuseError: The loop called the step too seldom to tell anything.
    """
    watched = _WatchedStep(stepper, clock)
    batches = _WatchedBatches(puller, watched, steps, skipped, sampler)
    try:
        loop(iter(batches), stepper.state, watched)
    finally:
        done_s = watched.completions_s()
    if len(done_s) < skipped + 2:
        raise MisuseError(
            f"loop(batches, state, step) must call step once a batch; it was given "
            f"{batches.given} batches and called it {len(done_s)} times"
        )
    gaps_s = np.diff(done_s[skipped - 1 :])
    return TrainBlock(
        steps_s=tuple(gaps_s.tolist()),
        waits_s=tuple(batches.waits_s[skipped:]),
        asked=batches.asked,
        ready=batches.ready,
        depth=watched.depth,
        finite=is_finite(watched.latest),
    )


def host_s_per_step(stepper: Stepper, loop: Loop, steps: int, clock: Clock) -> float:
    """Return H: seconds of the loop's own work after a step, when there is nothing to wait for.

    The loop runs on batches that are there and on a step that returns results which are ready:
    what it then does between a step and the next request is its own, and no waiting.

    Args:
        stepper: What gives the state, and results that are ready.
        loop: The trainer's.
        steps: Steps to time, at least 1.
        clock: Seconds.
    """
    step = _ReadyStep(stepper, clock)
    asked_s: list[float] = []

    def batches() -> Iterator[Batch]:
        for batch in islice(cycle(stepper.host_batches), steps + 2):
            if step.returned_s:
                asked_s.append(clock())
            yield batch

    loop(batches(), stepper.state, step)
    # The first time, a loop may still compile what it does with a result.
    own_s = [asked - back for asked, back in zip(asked_s, step.returned_s, strict=False)][1:]
    return max(0.0, fmean(own_s)) if own_s else 0.0


def instruments_s_per_step(stepper: Stepper, steps: int, looks: int, clock: Clock) -> float:
    """Return the seconds a step that the harness's instruments add to a bare loop.

    Both loops run on a step that returns at once, so that nothing hides what they cost. The
    quickest of several looks at each counts: what else the machine does only adds to it.
    """
    batch, ready_step = stepper.host_batches[0], _ReadyStep(stepper, clock)

    def bare_s() -> float:
        started = clock()
        _bare_loop(repeat(batch, steps), stepper.state, ready_step)
        return clock() - started

    def watched_s() -> float:
        watched = _WatchedStep(stepper, clock, ready_step)
        batches = _WatchedBatches(Puller(lambda: repeat(batch), clock), watched, steps, 0)
        started = clock()
        _bare_loop(batches, stepper.state, watched)
        watched.completions_s()
        return clock() - started

    seen_s = [(bare_s(), watched_s()) for _ in range(looks)]
    added_s = min(watched for _, watched in seen_s) - min(bare for bare, _ in seen_s)
    return max(0.0, added_s / steps)


def _bare_loop(batches: Iterable[Batch], state: State, step: Step) -> None:
    for batch in batches:
        state, _ = step(state, batch)


class _ReadyStep:
    """A step that does nothing: it returns its state, and an aux that is ready."""

    def __init__(self, stepper: Stepper, clock: Clock) -> None:
        self.returned_s: list[float] = []
        self._step = stepper.step
        self._aux = stepper.ready_aux()
        self._clock = clock

    def __call__(self, state: State, _: Batch) -> tuple[State, Aux]:
        self.returned_s.append(self._clock())
        return state, self._aux

    def __getattr__(self, name: str) -> Any:
        return getattr(self._step, name)


class _WatchedStep:
    """A step that keeps the state, and stamps the completion of every call from a side thread.

    What else the step can do is left to it.
    """

    def __init__(self, stepper: Stepper, clock: Clock, step: Step | None = None) -> None:
        self.latest: jax.Array | None = None
        self.depth = 0
        self._stepper = stepper
        self._step = step or stepper.step
        self._clock = clock
        self._dispatched = 0
        self._done_s: list[float] = []
        self._pending: SimpleQueue[jax.Array | None] = SimpleQueue()
        self._thread = ThreadPoolExecutor(1, "netpipe-completion-stamps")
        self._stamping = self._thread.submit(self._stamp)

    def __call__(self, state: State, batch: Batch) -> tuple[State, Any]:
        state, aux = self._step(state, batch)
        # The state handed in may have been donated: only the newest is alive.
        self._stepper.state = state
        self.latest = first_array(aux)
        self._pending.put(self.latest)
        self._dispatched += 1
        self.depth = max(self.depth, self._dispatched - len(self._done_s))
        return state, aux

    def __getattr__(self, name: str) -> Any:
        return getattr(self._step, name)

    def _stamp(self) -> None:
        while (array := self._pending.get()) is not None:
            array.block_until_ready()
            self._done_s.append(self._clock())

    def completions_s(self) -> list[float]:
        """Wait for the last step and return when each was done."""
        self._pending.put(None)
        self._thread.shutdown()
        self._stamping.result()
        return self._done_s


class _WatchedBatches:
    """A finite run of batches that notes how long each was waited for.

    Before it asks for a batch it looks whether the step before is done: it is, when something in
    the loop has waited for it.
    """

    def __init__(
        self,
        puller: Puller,
        step: _WatchedStep,
        steps: int,
        skipped: int,
        sampler: StackSampler | None = None,
    ) -> None:
        self.given = 0
        self.asked = 0
        self.ready = 0
        self.waits_s: list[float] = []
        self._puller = puller
        self._step = step
        self._count = steps + skipped
        self._skipped = skipped
        self._sampler = sampler

    def __iter__(self) -> Iterator[Batch]:
        while self.given < self._count:
            if self._step.latest is not None and self.given >= self._skipped:
                self._look(is_ready(self._step.latest))
            with loading():
                batch, wait_s = self._puller.pull()
            self.waits_s.append(wait_s)
            self.given += 1
            if self._sampler is not None:
                self._sampler.begin()
            yield batch

    def _look(self, ready: bool) -> None:
        self.asked += 1
        self.ready += ready
        if self._sampler is not None:
            self._sampler.end(counts=ready)
