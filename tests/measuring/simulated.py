"""Loaders, steps and loops that move a fake clock, so that long measurements take no time."""

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from netpipe.measuring.loader_puller import Puller
from netpipe.measuring.training import emulated_step
from netpipe.measuring.training.emulated_step import EmulatedStep, Engines
from netpipe.measuring.training.step_runner import Waited
from tests.fakes import FakeClock, FakeProcesses

BATCH = {"x": np.zeros((2, 3), np.int32)}
AMPLE_S = 60.0
# JAX dispatches this many steps ahead on a CPU.
_MOST_IN_FLIGHT = 32


def paced(clock: FakeClock, gaps_s: Iterable[float], batch: Any = None) -> Iterator[Any]:
    """Yield a batch, or 0, 1, 2, ..., each after a gap on the clock."""
    for number, gap_s in enumerate(gaps_s):
        clock.sleep(gap_s)
        yield number if batch is None else batch


def prefetched(
    clock: FakeClock, loads_s: Iterable[float], depth: int, take_s: float = 0.0
) -> Iterator[float]:
    """Yield the gaps of a thread that makes batches up to `depth` ahead.

    Making a batch takes one of `loads_s`; taking it from the buffer takes `take_s`.
    """
    made_s, taken_s = clock(), deque([clock()] * depth, maxlen=depth)
    for load_s in loads_s:
        made_s = max(made_s, taken_s[0]) + load_s
        yield max(take_s, made_s - clock())
        taken_s.append(max(clock(), made_s))


def start_puller(clock: FakeClock, gaps_s: Iterable[float], **fakes: Any) -> Puller:
    """Start a loader that gives a batch after each gap; `fakes` describe its processes."""
    puller = Puller(lambda: paced(clock, gaps_s), clock)
    puller.processes = FakeProcesses(**fakes)  # type: ignore[assignment]
    return puller


def counting_step(state: int, _: Any) -> tuple[int, dict[str, jax.Array]]:
    """Count the steps, and be done at once."""
    return state + 1, {"loss": jnp.float32(state)}


def syncing_loop(batches: Iterator[Any], state: Any, step: Any) -> None:
    """Wait for every loss as soon as its step is dispatched."""
    for batch in batches:
        state, aux = step(state, batch)
        float(aux["loss"])


def working_loop(clock: FakeClock, work_s: float) -> Callable[..., None]:
    """Return a loop that works for `work_s` seconds after each step."""

    def loop(batches: Iterator[Any], state: Any, step: Any) -> None:
        for batch in batches:
            state, _ = step(state, batch)
            clock.sleep(work_s)

    return loop


class Result(Waited):
    """The result of a simulated step, ready at a moment of the fake clock."""

    def __init__(self, clock: FakeClock, done_s: float) -> None:
        self._clock, self._done_s = clock, done_s

    def block_until_ready(self) -> None:
        """Move the clock to the moment, in the test's own thread alone."""
        if threading.current_thread() is threading.main_thread():
            self._clock.now_s = max(self._clock.now_s, self._done_s)

    def is_ready(self) -> bool:
        """Return whether the moment has come."""
        return self._clock() >= self._done_s


class SimulatedStep(EmulatedStep):
    """An asynchronous step of `step_s` seconds of a fake clock."""

    def __init__(self, clock: FakeClock, step_s: float) -> None:
        self._clock = clock
        self._engines = Engines(step_s)
        self._in_flight: deque[Result] = deque(maxlen=_MOST_IN_FLIGHT)

    @staticmethod
    def wait(aux: Any) -> None:
        """Wait for the step that returned this."""
        aux.block_until_ready()

    def __call__(self, state: Any, _: Any) -> tuple[Any, Any]:
        """Dispatch a step, once the oldest of those in flight is done."""
        if len(self._in_flight) == _MOST_IN_FLIGHT:
            self._in_flight[0].block_until_ready()
        done_ns = self._engines.dispatch(round(self._clock() * 1e9), 0)
        self.device_step = self._engines.device_step(done_ns)
        self._in_flight.append(Result(self._clock, done_ns / 1e9))
        return state, self._in_flight[-1]


class HeldDevice:
    """The device of emulated steps, on a clock at 0: a step ends when the test lets it.

    Attributes:
        sleeps_s: The seconds that each step would have slept.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sleeps_s: list[float] = []
        self._ends = threading.Semaphore(0)
        fake_time = SimpleNamespace(monotonic_ns=lambda: 0, sleep=self._sleep)
        monkeypatch.setattr(emulated_step, "time", fake_time)

    def _sleep(self, duration_s: float) -> None:
        self.sleeps_s.append(duration_s)
        assert self._ends.acquire(timeout=AMPLE_S)

    def end(self, steps: int = 1) -> None:
        """Let the next steps end."""
        self._ends.release(steps)
