"""Faults between loader and step: compilation, copies, memory, shared cores."""

from collections.abc import Iterable
from typing import Final

import numpy as np

from perf_tests.studies.faults.cases import STEP_S, Case, Range, Values, load_s
from perf_tests.studies.faults.parts.batches import COLUMNS, Batch
from perf_tests.studies.faults.parts.delays import Steady, compute
from perf_tests.studies.faults.parts.grain_loaders import Stages
from perf_tests.studies.faults.parts.loaders import FedByThreads, in_main_thread
from perf_tests.studies.faults.parts.loops import working
from perf_tests.studies.faults.parts.steps import compiling_anew, donating, keeping
from perf_tests.studies.faults.planted import (
    NO_STAGE,
    PYTHON,
    TRANSFORM,
    Planted,
    holds_the_lock,
    waits,
)

_BYTES_PER_GB = 1e9
_PRODUCTS = Range(30, 60, whole=True)
_SHARED_CORES = Planted(
    (TRANSFORM,),
    ("cpu", "gil"),
    "it is pure Python, which processes would help, and no core is left for them",
)


def _ever_longer(number: int) -> Batch:
    return {"tokens": np.zeros((1, COLUMNS + number), np.int32)}


def _too_wide(values: Values, dtype: type[np.generic]) -> Iterable[Batch]:
    copied = values["copy_ratio"] * values["step_s"] * values["copy_gb_per_s"] * _BYTES_PER_GB
    wide = {"features": np.ones(int(copied / np.dtype(dtype).itemsize), dtype)}
    return in_main_thread(Steady(load_s(values)), make=lambda _: wide)


def _wide(dtype: type[np.generic]) -> Case:
    return Case(
        f"wide-{dtype.__name__}",
        "transfer-bound",
        f"batches of {dtype.__name__} take longer to copy to the device than a step",
        ("transfer-bound",),
        lambda values: _too_wide(values, dtype),
        {
            "step_s": STEP_S,
            "load_ratio": Range(0.1, 0.3),
            "copy_ratio": Range(1.3, 2.0),
            "copy_gb_per_s": Range(0.05, 0.2),
        },
        planted=Planted((NO_STAGE,), ("device-transfer",)),
    )


CASES: Final = (
    Case(
        "new-length-each-batch",
        "recompiling",
        "nearly every batch has a length that the step was never compiled for",
        ("recompiling",),
        lambda _: in_main_thread(Steady(0.0), make=_ever_longer),
        {"products": Range(2, 8, whole=True)},
        step=lambda values: donating(int(values["products"])),
    ),
    Case(
        "new-jit-each-step",
        "recompiling",
        "the step jits a new function each time it is called",
        ("recompiling",),
        lambda values: in_main_thread(Steady(values["load_s"])),
        {"products": Range(2, 8, whole=True), "load_s": Range(0.001, 0.004)},
        step=lambda values: compiling_anew(int(values["products"])),
    ),
    _wide(np.float32),
    _wide(np.int32),
    Case(
        "donation-missing",
        "donation",
        "the step keeps its old state beside the new one",
        (),
        lambda values: in_main_thread(Steady(values["load_s"])),
        {
            "products": _PRODUCTS,
            "load_s": Range(0.001, 0.003),
            "spare": Range(1000, 8000, whole=True),
        },
        step=lambda values: keeping(int(values["products"]), int(values["spare"])),
        finding="donation-missing",
    ),
    Case(
        "slow-loader-on-a-cpu",
        "loading",
        "a loader that waits far longer than a real step on the CPU takes",
        ("loader-bound",),
        lambda values: in_main_thread(Steady(values["load_s"])),
        {"products": Range(8, 16, whole=True), "load_s": Range(0.05, 0.1)},
        step=lambda values: donating(int(values["products"])),
        planted=waits(PYTHON),
    ),
    Case(
        "shared-cores",
        "contention",
        "two workers compute on the cores that a real step on the CPU needs",
        ("contention",),
        lambda values: Stages(
            transform=Steady(values["load_s"]), spend=compute, by_batch=True
        ).in_workers(2),
        {"products": Range(32, 40, whole=True), "load_s": Range(0.024, 0.030)},
        step=lambda values: donating(int(values["products"])),
        budget_ratio=1.5,
        planted=_SHARED_CORES,
    ),
    Case(
        "gil-bound-threads",
        "contention",
        "threads load in pure Python, the loop works in pure Python, and they share one lock",
        ("contention", "host-bound"),
        lambda values: FedByThreads(
            Steady(load_s(values)), compute, threads=int(values["threads"]), depth=4
        ),
        {
            "step_s": STEP_S,
            "load_ratio": Range(0.4, 0.55),
            "work_ratio": Range(0.75, 0.9),
            "threads": Range(1, 3, whole=True),
        },
        loop=lambda values: working(compute, values["work_ratio"] * values["step_s"]),
        why="each alone fits beside the step: the Python of both together is too much",
        planted=holds_the_lock(PYTHON),
    ),
)
