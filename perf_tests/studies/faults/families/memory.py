"""Loaders that grow in the training process, a worker or /dev/shm, and some that do not."""

from collections.abc import Callable
from typing import Final

import grain

from perf_tests.studies.faults.cases import STEP_S, Case, Range, Values, load_s
from perf_tests.studies.faults.parts.delays import Steady
from perf_tests.studies.faults.parts.grain_loaders import Stages
from perf_tests.studies.faults.parts.heavy_batches import sending
from perf_tests.studies.faults.parts.leaks import Change, Freeing, Keeping, SharingMemory, share

_MB = 1_000_000
_HEALTHY = ("healthy",)
_RANGES = {"step_s": STEP_S, "load_ratio": Range(0.3, 0.5)}
_GROWING = {**_RANGES, "mb_per_batch": Range(0.4, 1.0)}


def _loader(
    make_change: Callable[[int], Change], workers: int = 0
) -> Callable[[Values], grain.IterDataset]:
    """Return a fast loader whose batches go through the change for `mb_per_batch`."""

    def make(values: Values) -> grain.IterDataset:
        stages = Stages(
            transform=Steady(load_s(values) * max(1, workers)),
            by_batch=True,
            change=make_change(int(values["mb_per_batch"] * _MB)),
        )
        return stages.in_workers(workers, buffer=2) if workers else stages.iter_dataset()

    return make


def _leaving_at_close(values: Values) -> grain.IterDataset:
    share(int(values["shared_mb"] * _MB))
    return Stages(transform=Steady(load_s(values)), by_batch=True).iter_dataset()


_MEMORY: Final = (
    Case(
        "training-process-keeps-batches",
        "memory",
        "a transform in the training process keeps part of each batch",
        (),
        _loader(Keeping),
        _GROWING,
        finding="memory-grows",
        names="the training process",
    ),
    Case(
        "worker-keeps-batches",
        "memory",
        "a transform in the only worker keeps part of each batch",
        (),
        _loader(Keeping, workers=1),
        _GROWING,
        finding="memory-grows",
        names="worker 1",
    ),
    Case(
        "second-worker-keeps-batches",
        "memory",
        "of two workers, the second keeps part of each of its batches",
        (),
        _loader(lambda kept_bytes: Keeping(kept_bytes, every=2), workers=2),
        {**_RANGES, "mb_per_batch": Range(0.8, 2.0)},
        finding="memory-grows",
        names="worker ",  # Grain starts both workers at once: either may have the lower pid
    ),
    Case(
        "fine-allocates-and-frees",
        "memory",
        "a transform needs much memory for a moment, for each batch",
        _HEALTHY,
        _loader(Freeing),
        {**_RANGES, "mb_per_batch": Range(4.0, 8.0)},
    ),
    Case(
        "fine-cache-that-fills",
        "memory",
        "a cache of some hundred megabytes fills with the first batches, then it stops growing",
        _HEALTHY,
        _loader(lambda kept_bytes: Keeping(kept_bytes, until=40)),
        {**_RANGES, "mb_per_batch": Range(4.0, 8.0)},
    ),
    Case(
        "fine-cache-in-a-worker",
        "memory",
        "the same in a worker process",
        _HEALTHY,
        _loader(lambda kept_bytes: Keeping(kept_bytes, until=40), workers=1),
        {**_RANGES, "mb_per_batch": Range(4.0, 8.0)},
    ),
)
_SHARED_MEMORY: Final = (
    Case(
        "shared-memory-left",
        "shared-memory",
        "the training process leaves a file in /dev/shm for each batch",
        (),
        _loader(SharingMemory),
        _GROWING,
        finding="shared-memory-grows",
        names="psm_",
    ),
    Case(
        "worker-leaves-shared-memory",
        "shared-memory",
        "a worker leaves a file in /dev/shm for each batch",
        (),
        _loader(SharingMemory, workers=1),
        _GROWING,
        finding="shared-memory-grows",
        names="psm_",
    ),
    Case(
        "shared-memory-left-at-close",
        "shared-memory",
        "loader() puts data into /dev/shm, where it stays when the loader is closed",
        (),
        _leaving_at_close,
        {**_RANGES, "shared_mb": Range(16.0, 64.0)},
        finding="left-after-close",
        names="psm_",
    ),
    Case(
        "fine-shared-memory-removed",
        "shared-memory",
        "a worker makes a file in /dev/shm for each batch, and removes it",
        _HEALTHY,
        _loader(lambda shared_bytes: SharingMemory(shared_bytes, removes=True), workers=1),
        _GROWING,
    ),
    Case(
        "fine-large-batches-of-a-worker",
        "shared-memory",
        "a worker sends batches of megabytes, through shared memory",
        _HEALTHY,
        lambda values: sending(values["sent_mb"]),
        {"step_s": Range(0.030, 0.045), "sent_mb": Range(2.0, 4.0)},
    ),
)

CASES: Final = (*_MEMORY, *_SHARED_MEMORY)
