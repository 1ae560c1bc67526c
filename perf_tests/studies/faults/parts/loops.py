"""Trainers' loops: loops that wait, loops that work, and healthy ones."""

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from perf_tests.studies.faults.parts.batches import Batch
from perf_tests.studies.faults.parts.delays import Spend

State = Any
Aux = Mapping[str, Any]
Step = Callable[[State, Batch], tuple[State, Aux]]
Loop = Callable[[Iterator[Batch], State, Step], None]
Read = Callable[[State, Aux], object]

_log = logging.getLogger(__name__)

# The usual ways in which a trainer waits for the device.
READS: Mapping[str, Read] = {
    "float": lambda _, aux: float(aux["loss"]),
    "item": lambda _, aux: aux["loss"].item(),
    "asarray": lambda _, aux: np.asarray(aux["loss"]),
    "jax-block": lambda _, aux: jax.block_until_ready(aux["loss"]),
    "method-block": lambda _, aux: aux["loss"].block_until_ready(),
    "device-get": lambda _, aux: jax.device_get(aux),
    # Formatted even if the logger then drops the message.
    "f-string": lambda _, aux: _log.debug(f"loss {aux['loss']}"),
    "bool": lambda _, aux: bool(aux["loss"] > 0),
    "state-block": lambda state, _: jax.block_until_ready(state),
}


def reading(read: Read, every: int = 1) -> Loop:
    """Return a loop that reads the result of every `every`-th step at once."""

    def loop(batches: Iterator[Batch], state: State, step: Step) -> None:
        for number, batch in enumerate(batches, 1):
            state, aux = step(state, batch)
            if number % every == 0:
                read(state, aux)

    return loop


def running_ahead(batches: Iterator[Batch], state: State, step: Step) -> None:
    """Train and read nothing: only the runtime limits how far the host runs ahead."""
    for batch in batches:
        state, _ = step(state, batch)


def logging_late(every: int) -> Loop:
    """Return a loop that reads the previous step's loss at every `every`-th step."""

    def loop(batches: Iterator[Batch], state: State, step: Step) -> None:
        before: Aux | None = None
        for number, batch in enumerate(batches, 1):
            state, aux = step(state, batch)
            if before is not None and number % every == 0:
                float(before["loss"])
            before = aux

    return loop


def working(spend: Spend, work_s: float) -> Loop:
    """Return a loop that works after each step without waiting for a result."""

    def loop(batches: Iterator[Batch], state: State, step: Step) -> None:
        for batch in batches:
            state, _ = step(state, batch)
            spend(work_s)

    return loop


@dataclass
class Curriculum:
    """A sampler that chooses the next batch by the last loss, which it must read.

    Attributes:
        loss: The loss of the last step; None before the first.
    """

    loss: Any = None

    def choose(self, batches: Iterator[Batch]) -> Iterator[Batch]:
        """Load the batch that the loss chooses."""
        while True:
            if self.loss is not None and np.isnan(self.loss):
                return
            yield next(batches)

    def loop(self, batches: Iterator[Batch], state: State, step: Step) -> None:
        """Train, and hand every loss to the sampler."""
        for batch in batches:
            state, aux = step(state, batch)
            self.loss = aux["loss"]
