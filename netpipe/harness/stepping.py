"""Running a step: on resident batches, synced, with transfers, beside a loader."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from itertools import cycle, islice
from threading import Event
from typing import Any

import jax
import numpy as np

from netpipe.harness.clock import Clock
from netpipe.harness.errors import MisuseError
from netpipe.harness.pull import Batch, Puller

State = Any
Aux = Any
Step = Callable[[State, Batch], tuple[State, Aux]]
StepFactory = Callable[[], tuple[State, Step]]
BatchesFactory = Callable[[], Sequence[Batch]]

_LEAST_RESIDENT = 2  # a step that sees one batch over and over finds it in its caches
_QUIET_STEPS = 3  # steps without a compilation after which warm-up is over
_MOST_WARM_UP_STEPS = 30


def first_array(aux: Aux) -> jax.Array:
    """Return the first `jax.Array` of a step's aux: what tells when the step is done.

    Raises:
        MisuseError: There is none.
    """
    for leaf in jax.tree.leaves(aux):
        if isinstance(leaf, jax.Array):
            return leaf
    raise MisuseError(
        "step(state, batch) must return (state, aux) with a jax.Array in aux, as the loss; "
        f"found {type(aux).__name__} without one"
    )


def is_ready(array: Any) -> bool:
    """Return whether the device is done with an array; waits for nothing."""
    return bool(array.is_ready())


def to_device(batch: Batch) -> Batch:
    """Copy every array of a batch to the device; other leaves stay as they are."""
    return jax.tree.map(
        lambda leaf: jax.device_put(leaf) if isinstance(leaf, np.ndarray | jax.Array) else leaf,
        batch,
    )


def batch_bytes(batch: Batch) -> int:
    """Return the bytes of all arrays of a batch."""
    return sum(
        leaf.nbytes for leaf in jax.tree.leaves(batch) if isinstance(leaf, np.ndarray | jax.Array)
    )


class Stepper:
    """One training state and the step that moves it on.

    Args:
        factory: Makes `(state, step)`.
        host_batches: At least two batches as the loader gives them, used in rotation.
        clock: Seconds.
        synthetic: Makes the batches that the step is timed on alone; the host batches when left
            out.
    """

    def __init__(
        self,
        factory: StepFactory,
        host_batches: Sequence[Batch],
        clock: Clock,
        synthetic: BatchesFactory | None = None,
    ) -> None:
        self.state, self.step = made_step(factory)
        self._clock = clock
        self._host = cycle(host_batches)
        resident = host_batches if synthetic is None else _made_batches(synthetic)
        self._resident = cycle([jax.block_until_ready(to_device(one)) for one in resident])
        self.compilations = compilation_count()
        self.devices_used = 1
        self.ready_before_next = 0
        self.asked_before_next = 0

    def advance(self, batch: Batch) -> jax.Array:
        """Dispatch one step and return the array that is ready when it is done."""
        self.state, aux = self.step(self.state, batch)
        done = first_array(aux)
        self.devices_used = len(done.sharding.device_set)
        return done

    def warm_up(self) -> int:
        """Run steps on resident and on host batches until nothing compiles any more.

        Returns:
            The steps it took.
        """
        quiet = steps = 0
        while quiet < _QUIET_STEPS and steps < _MOST_WARM_UP_STEPS:
            before = self.compilations()
            jax.block_until_ready(self.advance(next(self._resident)))
            jax.block_until_ready(self.advance(next(self._host)))
            quiet = quiet + 1 if self.compilations() == before else 0
            steps += 1
        return steps

    def resident_s(self, steps: int) -> float:
        """Return the seconds of one step on resident batches, blocked once at the end."""
        started = self._clock()
        last = None
        for batch in islice(self._resident, steps):
            if last is not None:
                self.asked_before_next += 1
                self.ready_before_next += is_ready(last)
            last = self.advance(batch)
        jax.block_until_ready(last)
        return (self._clock() - started) / steps

    def synced_s(self, steps: int) -> float:
        """Return the seconds of one step on resident batches, blocked after every step."""
        started = self._clock()
        for batch in islice(self._resident, steps):
            jax.block_until_ready(self.advance(batch))
        return (self._clock() - started) / steps

    def transfer_s(self, steps: int) -> float:
        """Return the seconds of one step with a transfer of a cached host batch before each."""
        started = self._clock()
        last = None
        for batch in islice(self._host, steps):
            last = self.advance(to_device(batch))
        jax.block_until_ready(last)
        return (self._clock() - started) / steps

    def shadow_s(self, steps: int, puller: Puller, step_s: float) -> float:
        """Return the seconds of one resident step while a side thread drains the loader.

        Args:
            steps: Steps to run.
            puller: The loader, pulled at most once every `step_s` seconds.
            step_s: The time of a step alone.
        """
        with _shadow(puller, step_s, self._clock):
            return self.resident_s(steps)


def made_step(factory: StepFactory) -> tuple[State, Step]:
    """Return what a step factory makes.

    Raises:
        MisuseError: It is not `(state, step)`.
    """
    made = factory()
    if not (isinstance(made, tuple) and len(made) == 2 and callable(made[1])):
        raise MisuseError(
            f"the step factory must return (state, step); found {type(made).__name__}"
        )
    return made


def _made_batches(factory: BatchesFactory) -> Sequence[Batch]:
    batches = factory()
    if len(batches) < _LEAST_RESIDENT:
        raise MisuseError(
            f"synthetic() must return at least {_LEAST_RESIDENT} batches; found {len(batches)}"
        )
    return batches


@contextmanager
def _shadow(puller: Puller, step_s: float, clock: Clock) -> Iterator[None]:
    stop = Event()

    def drain() -> None:
        due = clock()
        while not stop.is_set():
            puller.pull()
            due = max(due + step_s, clock())
            stop.wait(max(0.0, due - clock()))

    with ThreadPoolExecutor(1, "netpipe-shadow-loader") as thread:
        draining = thread.submit(drain)
        try:
            yield
        finally:
            stop.set()
        draining.result()


@cache
def compilation_count() -> Callable[[], int]:
    """Return a function that says how many compilations this process has done from now on."""
    seen = [0]

    def count(event: str, duration_secs: float, **kwargs: str | int) -> None:  # noqa: ARG001
        seen[0] += event == "/jax/core/compile/backend_compile_duration"

    jax.monitoring.register_event_duration_secs_listener(count)
    return lambda: seen[0]
