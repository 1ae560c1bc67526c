"""Loaders, steps and loops that several tests train with."""

from collections.abc import Iterable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from netpipe.measuring.loader_puller import Puller
from tests.fakes import FakeClock, FakeProcesses, paced

BATCH = {"x": np.zeros((2, 3), np.int32)}


def counting_step(state: int, _: Any) -> tuple[int, dict[str, jax.Array]]:
    """Count the steps, and be done at once."""
    return state + 1, {"loss": jnp.float32(state)}


def syncing_loop(batches: Iterator[Any], state: Any, step: Any) -> None:
    """Wait for every loss as soon as its step is dispatched."""
    for batch in batches:
        state, aux = step(state, batch)
        float(aux["loss"])


def slow_loop(clock: FakeClock) -> Any:
    """Give a loop that works for three seconds on each batch."""

    def loop(batches: Iterator[Any], state: Any, step: Any) -> None:
        for batch in batches:
            state, _ = step(state, batch)
            clock.sleep(3.0)

    return loop


def start_puller(clock: FakeClock, gaps_s: Iterable[float], **fakes: Any) -> Puller:
    """Start a loader that gives a batch after each gap; it has so many processes of its own."""
    puller = Puller(lambda: paced(clock, gaps_s), clock)
    puller.processes = FakeProcesses(**fakes)  # type: ignore[assignment]
    return puller
