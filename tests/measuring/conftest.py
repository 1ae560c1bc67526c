"""The whole protocol on a fake clock."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import repeat
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import pytest

from netpipe.jobs import footprint, processes
from netpipe.jobs.heartbeat import UNWATCHED, Watch
from netpipe.jobs.targets import Factories
from netpipe.measuring import calibration, protocol, rounds
from netpipe.measuring.loader_puller import Puller
from netpipe.measuring.protocol import measure
from netpipe.measuring.training.step_runner import StepRunner
from netpipe.results.measurement import CalibrationTurns, Device, Measurement
from tests.fakes import FakeClock, FakeProcesses
from tests.measurements import GPU, HOST
from tests.measuring.simulated import BATCH, paced

LOAD_S, STEP_S = 0.010, 0.030

Rehearse = Callable[..., Measurement]
"""Measures on the fake clock; see the fixture `rehearse`."""


def stamped_loop(batches: Iterator[Any], state: Any, step: Any) -> None:
    """Train, and let every step be timestamped before the loader advances the clock."""
    is_stamped = hasattr(step, "_done_s")
    for batch in batches:
        state, _ = step(state, batch)
        while is_stamped and len(step._done_s) < len(step.dispatched_s):
            time.sleep(0)


def beside_a_pull(stepper: StepRunner, steps: int, puller: Puller, _step_s: float) -> float:
    """Pull, then step, because two threads that move one clock would measure each other."""
    puller.pull()
    return stepper.measure_resident_s(steps)


class FakeReference:
    """A reference loader that takes no time, and costs less each time that it is pulled.

    Attributes:
        ignored: The processes that the puller ignored, each time.
    """

    def __init__(self, workers: int) -> None:
        self.name = f"fake, {workers} workers"
        self.processes = FakeProcesses(children=2)
        self.ignored: list[tuple[int, ...]] = []
        self.closed = False

    def measure_beside(self, puller: Puller, enough_s: float, _: FakeClock) -> CalibrationTurns:
        """Return costs at a ratio of 1, then 2, 3, ..."""
        assert enough_s > 0
        self.ignored.append(puller._ignored_pids)
        return CalibrationTurns(0.006, 0.006 / len(self.ignored))

    def close(self) -> None:
        """Note that it was closed."""
        self.closed = True


@pytest.fixture
def references(monkeypatch: pytest.MonkeyPatch) -> list[FakeReference]:
    """The fake reference loaders made in a test."""
    made: list[FakeReference] = []

    def make(workers: int) -> FakeReference:
        made.append(FakeReference(workers))
        return made[-1]

    monkeypatch.setattr(calibration, "ReferenceLoader", make)
    return made


@pytest.fixture
def rehearse(
    clock: FakeClock, references: list[FakeReference], monkeypatch: pytest.MonkeyPatch
) -> Rehearse:
    """Measure on the fake clock, in one thread, beside references that take no time.

    The loader gives a batch after each of `gaps_s`; `subject` has other fields of Factories.
    """
    references.clear()
    monkeypatch.setattr(StepRunner, "measure_shadow_s", beside_a_pull)
    monkeypatch.setattr(rounds, "late_reading_loop", stamped_loop)
    monkeypatch.setattr(footprint, "read_pss", lambda _: (10**8, 10**8))
    monkeypatch.setattr(footprint, "free_heap_bytes", lambda: 0)
    monkeypatch.setattr(footprint, "list_shared_files", dict)
    monkeypatch.setattr(protocol, "this_host", lambda: HOST)
    monkeypatch.setattr(protocol, "installed_versions", lambda: {"jax": "1"})
    monkeypatch.setattr(processes, "busy_elsewhere_fraction", lambda *_: 0.0)

    def run(
        gaps_s: Iterable[float] = repeat(LOAD_S),
        budget_s: float = 9.0,
        step_s: float = STEP_S,
        device: Device | None = None,
        watch: Watch = UNWATCHED,
        trace: Callable[[str], Path] | None = None,
        is_decided: Callable[[Measurement], bool] | None = None,
        halves_on_shared_cores: bool = False,
        **subject: Any,
    ) -> Measurement:
        def device_of(used: Sequence[Any]) -> Device:
            return device or replace(GPU, count=len(used))

        def step(state: int, _: Any) -> tuple[int, Any]:
            clock.sleep(step_s)
            return state + 1, {"loss": jnp.float32(0)}

        given = {
            "loader": lambda: paced(clock, gaps_s, BATCH),
            "step": lambda: (0, step),
            "loop": stamped_loop,
            **subject,
        }
        with ExitStack() as closing:
            *_, found = measure(
                Factories(**given), device_of, budget_s, clock, closing, watch, trace, is_decided,
                halves_on_shared_cores=halves_on_shared_cores,
            )  # fmt: skip
        return found

    return run
