"""Controls: healthy cases, some of which look like faults."""

from typing import Final

import grain
import numpy as np

from perf_tests.studies.faults.cases import STEP_S, Case, Range, load_s
from perf_tests.studies.faults.parts.batches import ROWS
from perf_tests.studies.faults.parts.delays import Lognormal, Steady, Stutter, compute, wait
from perf_tests.studies.faults.parts.grain_loaders import Stages
from perf_tests.studies.faults.parts.loaders import Prefetched, TorchStyle, in_main_thread
from perf_tests.studies.faults.parts.loops import (
    READS,
    logging_late,
    reading,
    running_ahead,
    working,
)
from perf_tests.studies.faults.parts.steps import donating

_HEALTHY = ("healthy",)
_LIGHT = {"step_s": STEP_S, "load_ratio": Range(0.3, 0.6)}
_LARGE = {"features": np.ones(250_000, np.float32)}


CASES: Final = (
    Case(
        "fine-main-thread",
        "control",
        "loading in the trainer's thread takes half a step",
        _HEALTHY,
        lambda values: in_main_thread(Steady(load_s(values))),
        _LIGHT,
    ),
    Case(
        "fine-with-little-to-spare",
        "control",
        "loading in the trainer's thread takes nearly the largest healthy part of a step",
        _HEALTHY,
        lambda values: in_main_thread(Steady(load_s(values))),
        {"step_s": Range(0.018, 0.026), "load_ratio": Range(0.65, 0.72)},
    ),
    Case(
        "fine-workers",
        "control",
        "two Grain workers whose transforms are quick",
        _HEALTHY,
        lambda values: Stages(
            transform=Steady(load_s(values)), spend=compute, by_batch=True
        ).in_workers(2, buffer=4),
        {"step_s": Range(0.018, 0.026), "load_ratio": Range(0.1, 0.3)},
    ),
    Case(
        "fine-reader-threads",
        "control",
        "four of Grain's threads read rows in time, in the trainer's process",
        _HEALTHY,
        lambda values: Stages(read=Steady(4 * load_s(values) / ROWS)).iter_dataset(
            grain.ReadOptions(num_threads=4, prefetch_buffer_size=16)
        ),
        _LIGHT,
    ),
    Case(
        "fine-computing-threads",
        "control",
        "two of Grain's threads compute in Python for a small part of a step",
        _HEALTHY,
        lambda values: Stages(transform=Steady(load_s(values) / ROWS), spend=compute).iter_dataset(
            grain.ReadOptions(num_threads=2, prefetch_buffer_size=16)
        ),
        {"step_s": STEP_S, "load_ratio": Range(0.1, 0.2)},
    ),
    Case(
        "fine-thread",
        "control",
        "a thread prefetches and takes half a step for each batch",
        _HEALTHY,
        lambda values: Prefetched(in_main_thread(Steady(load_s(values))), depth=4),
        _LIGHT,
    ),
    Case(
        "fine-tail-behind-a-deep-queue",
        "control",
        "lognormal load times behind a queue that is deep enough",
        _HEALTHY,
        lambda values: Prefetched(
            in_main_thread(Lognormal(load_s(values), values["sigma"])), depth=64
        ),
        {"step_s": STEP_S, "load_ratio": Range(0.3, 0.5), "sigma": Range(0.4, 0.8)},
    ),
    Case(
        "fine-stutter-behind-a-queue",
        "control",
        "pauses that the queue hides",
        _HEALTHY,
        lambda values: Prefetched(
            in_main_thread(
                Stutter(load_s(values), values["pause_ratio"] * values["step_s"], every=20)
            ),
            depth=16,
        ),
        {
            "step_s": Range(0.010, 0.014),
            "load_ratio": Range(0.03, 0.08),
            "pause_ratio": Range(4.0, 6.0),
        },
        budget_ratio=2.0,
    ),
    Case(
        "fine-stutter-behind-the-runtime",
        "control",
        "pauses that the steps already dispatched hide, as the loop reads nothing",
        _HEALTHY,
        lambda values: in_main_thread(
            Stutter(load_s(values), values["pause_ratio"] * values["step_s"], every=12)
        ),
        {
            "step_s": Range(0.010, 0.014),
            "load_ratio": Range(0.1, 0.2),
            "pause_ratio": Range(2.0, 3.0),
        },
        loop=lambda _: running_ahead,
        budget_ratio=1.5,
    ),
    Case(
        "fine-late-reads",
        "control",
        "the loop reads every loss one step late",
        _HEALTHY,
        lambda values: in_main_thread(Steady(load_s(values))),
        _LIGHT,
        loop=lambda _: logging_late(1),
    ),
    Case(
        "fine-rare-late-reads",
        "control",
        "the loop reads the loss of the previous step, every twentieth step",
        _HEALTHY,
        lambda values: in_main_thread(Steady(load_s(values))),
        _LIGHT,
        loop=lambda _: logging_late(20),
    ),
    Case(
        "fine-sync-without-cost",
        "control",
        "the loop reads each loss, but loading takes so little that it costs nothing",
        _HEALTHY,
        lambda values: in_main_thread(Steady(load_s(values))),
        # Waking up for each step takes about a millisecond: 3 to 5% of a step of 20 ms.
        {"step_s": Range(0.045, 0.060), "load_ratio": Range(0.0, 0.002)},
        loop=lambda _: reading(READS["float"]),
        budget_ratio=1.5,
    ),
    Case(
        "fine-work-beside-the-step",
        "control",
        "the loop does work of its own while the step runs, for less time than the step",
        _HEALTHY,
        lambda values: in_main_thread(Steady(load_s(values))),
        {"step_s": STEP_S, "load_ratio": Range(0.1, 0.3), "work_ratio": Range(0.2, 0.4)},
        loop=lambda values: working(wait, values["work_ratio"] * values["step_s"]),
    ),
    Case(
        "fine-epochs",
        "control",
        "a quick torch-style loader that ends and is started again",
        _HEALTHY,
        lambda values: TorchStyle(
            Steady(0.0), Steady(load_s(values)), batches=int(values["batches"])
        ),
        {"step_s": STEP_S, "load_ratio": Range(0.1, 0.4), "batches": Range(30, 60, whole=True)},
    ),
    Case(
        "fine-large-batches",
        "control",
        "batches of a megabyte before a copy that is fast",
        _HEALTHY,
        lambda values: in_main_thread(Steady(load_s(values)), make=lambda _: _LARGE),
        {**_LIGHT, "copy_gb_per_s": Range(2.0, 8.0)},
    ),
    Case(
        "fine-on-a-cpu",
        "control",
        "a real step on the CPU, which donates its state, and a loader that waits a little",
        ("healthy", "contention"),
        lambda values: in_main_thread(Steady(values["load_s"])),
        {"products": Range(30, 60, whole=True), "load_s": Range(0.001, 0.003)},
        step=lambda values: donating(int(values["products"])),
        why="on a CPU the step and the loader share cores, which is reported and not failed",
    ),
)
