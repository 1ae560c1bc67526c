"""Loading that is too slow in some stage, and buffers that hide it for a while."""

from dataclasses import replace
from typing import Final

import grain

from perf_tests.studies.faults.cases import STEP_S, Case, Range, Values, load_s
from perf_tests.studies.faults.parts.batches import ROWS
from perf_tests.studies.faults.parts.delays import (
    Lognormal,
    OneSlowWorker,
    Steady,
    Stutter,
    compute,
)
from perf_tests.studies.faults.parts.grain_loaders import Stages, data_loader
from perf_tests.studies.faults.parts.loaders import Prefetched, TorchStyle, in_main_thread
from perf_tests.studies.faults.planted import (
    BATCH,
    PYTHON,
    TRANSFORM,
    holds_the_lock,
    reads_wait_for,
    waits,
)

_BOUND = ("loader-bound",)
_MASKED = ("loader-bound", "masked-loader-bound")
_HIDDEN = "a buffer that the harness empties no longer hides anything; what is left is loading"
_TOO_SLOW = {"step_s": STEP_S, "load_ratio": Range(1.2, 2.0)}


def _by_row(values: Values, threads: int = 1) -> Steady:
    """Return the time per row at which `threads` need `load_ratio` steps per batch."""
    return Steady(threads * load_s(values) / ROWS)


_STAGES: Final = (
    Case(
        "slow-source",
        "loading",
        "each row takes long to read, in the trainer's own thread",
        _BOUND,
        lambda values: Stages(read=_by_row(values)).iter_dataset(),
        _TOO_SLOW,
        planted=reads_wait_for("latency"),
    ),
    Case(
        "slow-by-far",
        "loading",
        "a batch takes many times as long as a step, in the trainer's own thread",
        _BOUND,
        lambda values: in_main_thread(Steady(load_s(values))),
        {"step_s": Range(0.003, 0.006), "load_ratio": Range(10.0, 30.0)},
        planted=waits(PYTHON),
    ),
    Case(
        "slow-map",
        "loading",
        "each row takes long to transform, in two of Grain's threads",
        _BOUND,
        lambda values: Stages(transform=_by_row(values, threads=2)).iter_dataset(
            grain.ReadOptions(num_threads=2, prefetch_buffer_size=4)
        ),
        _TOO_SLOW,
        planted=waits(TRANSFORM),
    ),
    Case(
        "slow-collate",
        "loading",
        "each batch takes long to stack, in one of Grain's threads",
        _BOUND,
        lambda values: Stages(stack=Steady(load_s(values))).iter_dataset(
            grain.ReadOptions(num_threads=1, prefetch_buffer_size=2)
        ),
        _TOO_SLOW,
        planted=waits(BATCH),
    ),
    Case(
        "slow-torch-collate",
        "loading",
        "a torch-style iterable reads quickly and collates slowly",
        _BOUND,
        lambda values: TorchStyle(Steady(0.0), Steady(load_s(values))),
        _TOO_SLOW,
        planted=waits("_collate"),
    ),
    Case(
        "slow-computing-map",
        "loading",
        "a transform in pure Python computes longer than a step, in the trainer's own thread",
        _BOUND,
        lambda values: Stages(transform=_by_row(values), spend=compute).iter_dataset(),
        _TOO_SLOW,
        planted=holds_the_lock(TRANSFORM),
    ),
    Case(
        "slow-data-loader",
        "loading",
        "a Grain DataLoader without workers whose transform is slow",
        _BOUND,
        lambda values: data_loader(_by_row(values), workers=0),
        _TOO_SLOW,
        planted=waits("DataLoaderMap"),
    ),
    Case(
        "slow-thread",
        "loading",
        "one thread prefetches two batches and takes longer than a step for each",
        _BOUND,
        lambda values: Prefetched(in_main_thread(Steady(load_s(values))), depth=2),
        _TOO_SLOW,
        planted=waits(PYTHON),
    ),
    Case(
        "too-few-waiting-workers",
        "loading",
        "one worker process waits for storage longer than a step",
        _BOUND,
        lambda values: Stages(transform=_by_row(values)).in_workers(1),
        _TOO_SLOW,
        planted=waits(TRANSFORM),
    ),
    Case(
        "too-few-computing-workers",
        "loading",
        "one worker process computes longer than a step",
        _BOUND,
        lambda values: Stages(transform=_by_row(values), spend=compute).in_workers(1),
        _TOO_SLOW,
        planted=holds_the_lock(TRANSFORM),
    ),
    Case(
        "one-slow-worker",
        "loading",
        "of two workers that take turns, one is so slow that both wait for it",
        _BOUND,
        lambda values: Stages(
            transform=OneSlowWorker(0.3 * values["step_s"], 2 * load_s(values), workers=2),
            by_batch=True,
        ).in_workers(2),
        {"step_s": STEP_S, "load_ratio": Range(1.4, 2.2)},
        budget_ratio=1.5,
        planted=waits(TRANSFORM),
    ),
    Case(
        "slow-shard",
        "loading",
        "one shard in four is so slow that the mean is above a step",
        _BOUND,
        lambda values: in_main_thread(
            Stutter(0.8 * values["step_s"], values["extra_ratio"] * values["step_s"], every=4)
        ),
        {"step_s": STEP_S, "extra_ratio": Range(2.4, 4.0)},
        budget_ratio=2.0,
        planted=waits(PYTHON),
    ),
    Case(
        "heavy-tailed-load",
        "loading",
        "lognormal load times whose mean is well above a step",
        _BOUND,
        lambda values: in_main_thread(Lognormal(load_s(values), values["sigma"])),
        {"step_s": STEP_S, "load_ratio": Range(1.8, 2.6), "sigma": Range(0.3, 0.5)},
        budget_ratio=2.0,
        planted=waits(PYTHON),
    ),
)

_HIDDEN_RATIO = Range(1.10, 1.40)


def _buffer(depth: int) -> Case:
    return Case(
        f"buffer-{depth}",
        "buffers",
        f"a queue of {depth} batches, full at the start, hides a loader that is too slow",
        _MASKED,
        lambda values: Prefetched(
            in_main_thread(Steady(load_s(values))), depth=depth, lent=depth
        ),
        {"step_s": STEP_S, "load_ratio": _HIDDEN_RATIO},
        why=_HIDDEN,
        budget_ratio=1.5,
        planted=waits(PYTHON),
    )  # fmt: skip


_BUFFERS: Final = (
    *(_buffer(depth) for depth in (10, 100, 1000)),
    replace(
        _buffer(1000),
        name="buffer-1000-by-13-percent",
        plants="a queue of 1000 batches, full at the start, hides a loader 13% too slow",
        ranges={"step_s": STEP_S, "load_ratio": Range(1.13, 1.13)},
    ),
    Case(
        "read-buffer-hides",
        "buffers",
        "Grain's own read buffer of 500 batches hides rows that are slow to read",
        _MASKED,
        lambda values: Stages(read=_by_row(values, threads=4)).iter_dataset(
            grain.ReadOptions(num_threads=4, prefetch_buffer_size=500)
        ),
        {"step_s": STEP_S, "load_ratio": _HIDDEN_RATIO},
        why=_HIDDEN,
        budget_ratio=1.5,
        planted=reads_wait_for("latency"),
    ),
)

CASES: Final = (*_STAGES, *_BUFFERS)
