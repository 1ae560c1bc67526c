"""The real loop, watched from outside: when its batches were asked for and its steps were done."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any

import jax
import numpy as np

from netpipe.harness.clock import Clock
from netpipe.harness.errors import MisuseError
from netpipe.harness.pull import Batch, Puller
from netpipe.harness.stepping import Aux, State, Step, Stepper, first_array, is_ready

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
    """

    steps_s: tuple[float, ...]
    waits_s: tuple[float, ...]
    asked: int
    ready: int
    depth: int

    @property
    def s_per_step(self) -> float:
        """Wall seconds of one step."""
        return sum(self.steps_s) / len(self.steps_s)


def train_block(
    puller: Puller, stepper: Stepper, loop: Loop, steps: int, skipped: int, clock: Clock
) -> TrainBlock:
    """Run `loop` over some batches.

    Args:
        puller: The loader.
        stepper: The state and the step.
        loop: The trainer's.
        steps: Steps to count.
        skipped: Steps before them, at least 1, until loading and computing overlap.
        clock: Seconds.

    Raises:
        MisuseError: The loop called the step too seldom to tell anything.
    """
    watched = _WatchedStep(stepper, clock)
    batches = _WatchedBatches(puller, watched, steps, skipped)
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
    )


class _WatchedStep:
    """A step that keeps the state, and stamps the completion of every call from a side thread."""

    def __init__(self, stepper: Stepper, clock: Clock) -> None:
        self.latest: jax.Array | None = None
        self.depth = 0
        self._stepper = stepper
        self._clock = clock
        self._dispatched = 0
        self._done_s: list[float] = []
        self._pending: SimpleQueue[jax.Array | None] = SimpleQueue()
        self._thread = ThreadPoolExecutor(1, "netpipe-completion-stamps")
        self._stamping = self._thread.submit(self._stamp)

    def __call__(self, state: State, batch: Batch) -> tuple[State, Any]:
        state, aux = self._stepper.step(state, batch)
        # The state handed in may have been donated: only the newest is alive.
        self._stepper.state = state
        self.latest = first_array(aux)
        self._pending.put(self.latest)
        self._dispatched += 1
        self.depth = max(self.depth, self._dispatched - len(self._done_s))
        return state, aux

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

    def __init__(self, puller: Puller, step: _WatchedStep, steps: int, skipped: int) -> None:
        self.given = 0
        self.asked = 0
        self.ready = 0
        self.waits_s: list[float] = []
        self._puller = puller
        self._step = step
        self._count = steps + skipped
        self._skipped = skipped

    def __iter__(self) -> Iterator[Batch]:
        while self.given < self._count:
            if self._step.latest is not None and self.given >= self._skipped:
                self.asked += 1
                self.ready += is_ready(self._step.latest)
            batch, wait_s = self._puller.pull()
            self.waits_s.append(wait_s)
            self.given += 1
            yield batch
