"""Planted faults with a real step on the device, as targets of `netpipe measure`.

The training step is the one measured without faults. The delays suit its time on an H100, which
was 0.12 to 0.21 s, and a tenth of that.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

import jax
import numpy as np

from fixtures.step import workload_of
from fixtures.workload import Step, load
from netpipe.workload.config import Config
from netpipe.workload.preparation.synthetic import data_of_user
from perf_tests.studies.faults.parts.batches import Batch
from perf_tests.studies.faults.parts.delays import Steady
from perf_tests.studies.faults.parts.loaders import in_main_thread
from perf_tests.studies.faults.parts.loops import READS, reading
from perf_tests.studies.faults.parts.steps import compiling_anew, donating, keeping

_LOADER_BOUND_S: Final = 0.6
_FORCED_SYNC_S: Final = 0.025
_WIDE_BYTES: Final = {"gpu": 1 << 30, "cpu": 1 << 24}
_SPARE_ROWS: Final = 8000


def _workload() -> Config:
    return workload_of(jax.devices()[0], Config())


def _delayed(seconds: float) -> Iterator[Batch]:
    """Yield the same real batch forever, each time after `seconds` in the loop's thread."""
    pipeline = replace(_workload().pipeline, workers=0)
    first = next(iter(load(data_of_user(), pipeline)))
    return in_main_thread(Steady(seconds), make=lambda _: first)


def _train() -> Any:
    return Step(_workload())()


def fine_loader() -> Any:
    """Return this repository's pipeline."""
    return load(data_of_user(), _workload().pipeline)


def loader_bound_loader() -> Iterator[Batch]:
    """Return a loader that takes longer than the step."""
    return _delayed(_LOADER_BOUND_S)


def forced_sync_loader() -> Iterator[Batch]:
    """Return a loader that the step hides unless the loop waits for the step."""
    return _delayed(_FORCED_SYNC_S)


def transfer_loader() -> Iterator[Batch]:
    """Return batches that take longer to copy than the step."""
    size = _WIDE_BYTES[jax.default_backend()] // 4
    wide = {"tokens": np.ones((1, size), np.int32)}
    return in_main_thread(Steady(0.0), make=lambda _: wide)


def donation_loader() -> Iterator[Batch]:
    """Return small batches, a few milliseconds each."""
    return in_main_thread(Steady(0.002))


fine_step = loader_bound_step = forced_sync_step = _train
forced_sync_loop = reading(READS["float"])
recompiling_loader = donation_loader


def transfer_step() -> Any:
    """Return a step of a few matrix products."""
    return donating(8)


def donation_step() -> Any:
    """Return a step that keeps its old state beside the new one."""
    return keeping(8, _SPARE_ROWS)


def recompiling_step() -> Any:
    """Return a step that is compiled each time it is called."""
    return compiling_anew(4)
