"""A training run that is watched: `python -m perf_tests.studies.watching.training REQUEST`."""

import json
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import netpipe
from netpipe.device.emulated_names import parse_accelerator
from netpipe.grain_access.worker_start import let_grain_start_workers
from netpipe.measuring.training.emulated_step import EmulatedStep
from netpipe.measuring.training.training_loop import late_reading_loop, run_loop
from perf_tests.studies.faults.cases import STEP_S, Case, Range, Values, load_s
from perf_tests.studies.faults.catalogue import find
from perf_tests.studies.faults.parts.batches import Batch
from perf_tests.studies.faults.parts.delays import Steady, compute
from perf_tests.studies.faults.parts.loaders import Prefetched, in_main_thread
from perf_tests.studies.faults.parts.loops import READS, Loop, State, Step, reading

MODULE: Final = "perf_tests.studies.watching.training"
_STEP_20_MS: Final = Range(0.02, 0.02)


@dataclass(frozen=True)
class BecomesSlow:
    """From batch `at` on, each batch takes `slow_s` instead of `each_s` seconds."""

    each_s: float
    slow_s: float
    at: int

    def __call__(self, number: int) -> float:
        """Return the seconds of a batch."""
        return self.slow_s if number >= self.at else self.each_s


def _slowing(values: Values) -> Iterable[Batch]:
    slow_s, at = values["slow_ratio"] * values["step_s"], int(values["at"])
    return Prefetched(in_main_thread(BecomesSlow(load_s(values), slow_s, at)), depth=4)


def _reading(name: str, _: Values) -> Loop:
    return reading(READS[name])


BECOMES_SLOW: Final = Case(
    "becomes-slow",
    "watching",
    "a thread prefetches in time until a batch, and takes longer than a step from then on",
    ("loader-bound",),
    _slowing,
    {
        "step_s": _STEP_20_MS,
        "load_ratio": Range(0.3, 0.6),
        "slow_ratio": Range(1.25, 2.5),
        "at": Range(600, 1400, whole=True),
    },
)
STEADY: Final = Case(
    "steady",
    "watching",
    "a thread prefetches, and computes for a quarter of a step",
    ("healthy",),
    lambda values: Prefetched(in_main_thread(Steady(load_s(values)), compute), depth=8),
    {"step_s": STEP_S, "load_ratio": Range(0.2, 0.3)},
)
SLOW_HOST: Final = Case(
    "slow-host",
    "watching",
    "each process loads in a thread; the slow one takes two to three times a step",
    ("loader-bound",),
    lambda values: Prefetched(in_main_thread(Steady(load_s(values))), depth=4),
    {"step_s": _STEP_20_MS, "load_ratio": Range(2.0, 3.0)},
)
SYNCED: Final = tuple(
    Case(
        f"sync-{name}-computing",
        "watching",
        f"the loop blocks after each step: {name}; loading computes in the loop's thread",
        ("forced-sync",),
        lambda values: in_main_thread(Steady(load_s(values)), compute),
        {"step_s": STEP_S, "load_ratio": Range(0.3, 0.7)},
        loop=partial(_reading, name),
    )
    for name in READS
)
_CASES: Final = {case.name: case for case in (BECOMES_SLOW, STEADY, SLOW_HOST, *SYNCED)}


@dataclass(frozen=True)
class TrainingRequest:
    """The training that a process runs.

    Attributes:
        port: The coordinator's port of a training of two processes; None for a training alone.
    """

    case: str
    values: Values
    log: str
    window_s: float
    steps: int | None = None
    seconds: float | None = None
    port: int | None = None
    process: int = 0

    def command(self) -> list[str]:
        """Return the arguments of the interpreter that runs the training."""
        return ["-m", MODULE, json.dumps(asdict(self))]


def _repeat(batches: Iterable[Batch]) -> Iterator[Batch]:
    """Yield the batches of one epoch after the other; an iterator has a single one."""
    epoch = iter(batches)
    yield from epoch
    while epoch is not batches:
        yield from batches


def _limit(batches: Iterable[Batch], request: TrainingRequest) -> Iterator[Batch]:
    ends_s = None if request.seconds is None else time.monotonic() + request.seconds
    for number, batch in enumerate(_repeat(batches)):
        if number == request.steps or (ends_s is not None and time.monotonic() > ends_s):
            return
        yield batch


def _emulated(case: Case, values: Values) -> tuple[State, Step]:
    accelerator = parse_accelerator(case.accelerator(values))
    assert accelerator is not None, f"{case.name} has a real step"
    step_s, _ = accelerator.derive_step_s(None, mfu=1.0)
    step = EmulatedStep(step_s, copy_bytes_per_s=accelerator.copy_bytes_per_s)
    return step.initial_state(), step


def _collective(step_s: float) -> tuple[State, Step]:
    """Return a step in which all processes wait for each other."""
    mesh = Mesh(np.array(jax.devices()), ("data",))
    sharded = NamedSharding(mesh, PartitionSpec("data"))
    add_up = jax.jit(jnp.sum, out_shardings=NamedSharding(mesh, PartitionSpec()))

    def step(state: State, batch: Batch) -> tuple[State, Any]:
        time.sleep(step_s)
        local = np.full((1, 8), np.asarray(batch["tokens"]).flat[0], np.float32)
        return state, {"loss": add_up(jax.make_array_from_process_local_data(sharded, local))}

    return None, step


def train(request: TrainingRequest) -> None:
    """Train with a watcher until the steps or the time are over."""
    let_grain_start_workers()
    case = _CASES.get(request.case) or find(request.case)
    if request.port is not None:
        jax.distributed.initialize(f"127.0.0.1:{request.port}", 2, request.process)
        state, step = _collective(request.values["step_s"])
    else:
        state, step = case.step(request.values) if case.step else _emulated(case, request.values)
    batches = _limit(case.loader(request.values), request)
    watched = netpipe.watch(batches, log=Path(request.log), window_s=request.window_s)

    def watched_step(state: State, batch: Batch) -> tuple[State, Any]:
        state, aux = step(state, batch)
        watched.on_step_end(aux)
        return state, aux

    loop = case.loop(request.values) if case.loop else late_reading_loop
    run_loop(loop, watched, state, watched_step)


if __name__ == "__main__":
    train(TrainingRequest(**json.loads(sys.argv[1])))
