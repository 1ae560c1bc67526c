"""Stages limited by something other than time or the GIL."""

from typing import Final

from perf_tests.studies.faults.cases import STEP_S, Case, Range, Values, load_s
from perf_tests.studies.faults.parts.batches import ROWS
from perf_tests.studies.faults.parts.delays import Steady, compute_unlocked
from perf_tests.studies.faults.parts.grain_loaders import Stages
from perf_tests.studies.faults.parts.heavy_batches import (
    copying_in_memory,
    reading_from_disk,
    sending,
)
from perf_tests.studies.faults.parts.loaders import in_main_thread
from perf_tests.studies.faults.planted import NO_STAGE, PYTHON, SOURCE, TRANSFORM, Planted

_BOUND = ("loader-bound",)
_TOO_SLOW = {"step_s": STEP_S, "load_ratio": Range(1.2, 2.0)}
_QUICK_STEP_S = Range(0.003, 0.005)


def _by_row(values: Values) -> Steady:
    return Steady(load_s(values) / ROWS)


CASES: Final = (
    Case(
        "hashing-map",
        "resources",
        "a transform computes in C longer than a step, in the trainer's own thread",
        _BOUND,
        lambda values: Stages(transform=_by_row(values), spend=compute_unlocked).iter_dataset(),
        _TOO_SLOW,
        planted=Planted((TRANSFORM,), ("cpu",)),
    ),
    Case(
        "hashing-generator",
        "resources",
        "a generator in plain Python computes in C longer than a step",
        _BOUND,
        lambda values: in_main_thread(Steady(load_s(values)), compute_unlocked),
        _TOO_SLOW,
        planted=Planted((PYTHON,), ("cpu",)),
    ),
    Case(
        "uncached-source",
        "resources",
        "each batch is read from a disk, past the page cache",
        _BOUND,
        lambda values: reading_from_disk(values["read_mb"]),
        {"step_s": _QUICK_STEP_S, "read_mb": Range(16, 32)},
        planted=Planted((SOURCE,), ("disk",)),
        budget_ratio=1.5,
    ),
    Case(
        "copying-map",
        "resources",
        "a transform copies more in memory than caches hold",
        _BOUND,
        lambda values: copying_in_memory(values["copied_mb"]),
        {"step_s": _QUICK_STEP_S, "copied_mb": Range(128, 256)},
        planted=Planted(
            ("Copying",),
            ("memory", "cpu"),
            "whether one core alone uses up the memory's bandwidth depends on the machine",
        ),
    ),
    Case(
        "sending-worker",
        "resources",
        "one worker sends large batches that cost nothing to make",
        _BOUND,
        lambda values: sending(values["sent_mb"]),
        {"step_s": _QUICK_STEP_S, "sent_mb": Range(32, 64)},
        planted=Planted(
            ("ProcessPrefetch", NO_STAGE),
            ("process-transfer",),
            "a transform does not send: the worker does, or no stage",
        ),
    ),
)
