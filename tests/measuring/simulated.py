"""An accelerator and loaders that move a fake clock, so that long measurements take no time."""

import threading
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

from netpipe.measuring.training.emulated_step import EmulatedStep, Engines
from netpipe.measuring.training.step_runner import Waited
from tests.fakes import FakeClock

# JAX dispatches this many steps ahead on a CPU.
_MOST_IN_FLIGHT = 32


class Result(Waited):
    """The result of a simulated step, ready at a moment of the fake clock."""

    def __init__(self, clock: FakeClock, done_s: float) -> None:
        self._clock = clock
        self._done_s = done_s

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

    def __call__(self, state: Any, batch: Any) -> tuple[Any, Any]:  # noqa: ARG002
        """Dispatch a step, once the oldest of those in flight is done."""
        if len(self._in_flight) == _MOST_IN_FLIGHT:
            self._in_flight[0].block_until_ready()
        done_ns = self._engines.dispatch(round(self._clock() * 1e9), 0)
        self.device_step = self._engines.device_step(done_ns)
        self._in_flight.append(Result(self._clock, done_ns / 1e9))
        return state, self._in_flight[-1]


def prefetched(clock: FakeClock, loads_s: Iterable[float], depth: int) -> Iterator[float]:
    """Give the gaps of a thread that makes batches in such times, at most `depth` ahead."""
    made_s, taken_s = clock(), deque([clock()] * depth, maxlen=depth)
    for load_s in loads_s:
        made_s = max(made_s, taken_s[0]) + load_s
        yield max(0.0, made_s - clock())
        taken_s.append(max(clock(), made_s))
