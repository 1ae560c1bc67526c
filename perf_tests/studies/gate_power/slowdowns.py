"""This repository's pipeline and step, slowed down on purpose by a known amount.

A dose is work added to every batch or step. Its effect is measured, not assumed: sessions with
and without doses are compared in the metric that the doses slow down.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any, Final

import numpy as np

from fixtures.workload import Step, gpu_workload
from netpipe.workload.config import Config
from netpipe.workload.preparation.synthetic import data_of_user

KINDS: Final = ("cpu", "wait", "step", "transfer", "sequences")
_VALUES: Final = np.arange(800, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
_WAIT_S: Final = 0.0001
_MATRIX: Final = 64
_MOST_SEQUENCES: Final = 21
_COPIED_BYTES: Final = 1 << 20


@dataclass(frozen=True)
class Slowdown:
    """The part that is made slower, and the number of doses.

    Attributes:
        kind: One of `KINDS`; "none" for nothing.
        doses: For cpu, pieces of work in a worker for every batch; for wait, tenths of a
            millisecond of sleep there; for step, small matrix products on the device in every
            step; for transfer, mebibytes copied to the device before every step; for sequences,
            the number that a step trains on, at most `_MOST_SEQUENCES`.
        size: "gpu_" for a GPU's batches and model; "" for small ones, which suit a CPU.
    """

    kind: str = "none"
    doses: int = 0
    size: str = ""

    @property
    def _workload(self) -> Config:
        workload = gpu_workload(Config()) if self.size else Config()
        if self.kind != "sequences":
            return workload
        return replace(workload, pipeline=replace(workload.pipeline, batch_size=_MOST_SEQUENCES))

    def loader(self) -> Any:
        """Return the pipeline, whose workers do more work or wait longer."""
        pipeline: Any = import_module("netpipe.workload.pipeline")
        plain = pipeline.concatenate
        if self.kind in ("cpu", "wait"):
            pipeline.concatenate = Slowed(plain, _work if self.kind == "cpu" else _wait, self.doses)
        try:
            return pipeline.build(data_of_user(), self._workload.pipeline)
        finally:
            pipeline.concatenate = plain

    def step(self) -> Any:
        """Return `(state, step)`, where a step does or copies more."""
        if self.kind == "sequences":
            return _training_on(self.doses, self._workload)
        state, step = Step(self._workload)()
        if self.kind == "step":
            return state, _computing(step, self.doses)
        if self.kind == "transfer":
            return state, _copying(step, self.doses)
        return state, step


class Slowed:
    """A transform that calls a function `doses` times before its own work."""

    def __init__(self, plain: Callable[..., Any], dose: Callable[[int], None], doses: int) -> None:
        self._plain = plain
        self._dose = dose
        self._doses = doses

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Apply the doses, then the transform."""
        self._dose(self._doses)
        return self._plain(*args, **kwargs)


def _work(doses: int) -> None:
    """Do about 20 us of typical transform work: fixed work, so that it slows with the machine."""
    for _ in range(doses):
        total = 0
        for value in range(200):
            total += value & 7
        np.cumsum(np.sort(_VALUES) >> np.uint64(3))


def _wait(doses: int) -> None:
    if doses:
        time.sleep(doses * _WAIT_S)


def _training_on(sequences: int, workload: Config) -> Any:
    from netpipe.workload.step.train import make_step

    state, step = make_step(workload.step, workload.pipeline.sequence_length, sequences)
    return state, lambda state, batch: step(
        state, {key: array[:sequences] for key, array in batch.items()}
    )


def _computing(step: Callable[..., Any], doses: int) -> Callable[..., Any]:
    import jax
    import jax.numpy as jnp

    matrix = jnp.eye(_MATRIX) * 0.5

    @jax.jit
    def multiplied(loss: Any) -> Any:
        started = matrix + 0 * loss
        return (
            loss
            + 0 * jax.lax.fori_loop(0, doses, lambda _, product: product @ matrix, started)[0, 0]
        )

    def slowed(state: Any, batch: Any) -> Any:
        state, aux = step(state, batch)
        return state, {**aux, "loss": multiplied(aux["loss"])}

    return slowed


def _copying(step: Callable[..., Any], doses: int) -> Callable[..., Any]:
    import jax

    copied = np.zeros(doses * _COPIED_BYTES, np.uint8)

    def slowed(state: Any, batch: Any) -> Any:
        moved = jax.device_put(copied.copy())
        state, aux = step(state, batch)
        return state, {**aux, "moved": moved}

    return slowed


def __getattr__(name: str) -> Any:
    """Return a session's target: `loader_cpu_20` and `loader_gpu_cpu_20` have 20 doses of work."""
    what, _, slowdown = name.partition("_")
    kind, _, doses = slowdown.rpartition("_")
    if what not in ("loader", "step") or not doses.isdecimal():
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    size = "gpu_" if kind.startswith("gpu_") else ""
    return getattr(Slowdown(kind.removeprefix(size), int(doses), size), what)
