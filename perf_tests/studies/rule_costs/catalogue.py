"""The quantities that are measured for each rule."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from perf_tests.studies.rule_costs import measures
from perf_tests.studies.rule_costs.examples import Setting
from perf_tests.studies.rule_costs.measures import Measure

CPU: Final = Setting(batch=32, python_s_per_row=0.0004)
LIGHT: Final = Setting(batch=256)
# Small batches: without threads, two workers read 40 rows per second.
REMOTE: Final = Setting(batch=8, read_s=0.05)
_PLAIN: Final = Setting(batch=32)
_EPOCH: Final = Setting(batch=256, rows=1_000)
_EPOCHS: Final = Setting(batch=20, rows=1_000)
_BYTES_PER_MB: Final = 1e6


@dataclass(frozen=True)
class Quantity:
    """One of the values of an observation, as it is reported.

    Attributes:
        name: Its name among the values.
        unit: The unit, worded to follow the numbers.
        setting: The conditions, worded to follow the unit.
        size: The observed value that makes one unit.
    """

    name: str
    unit: str
    setting: str = ""
    size: float = 1.0


@dataclass(frozen=True)
class Trial:
    """An observation of a rule's two examples in turns.

    Attributes:
        measure: The function that observes.
        setting: The setting that the examples run with.
        quantities: The values that are reported.
        varies: Whether runs differ, as times and memory do.
    """

    measure: Measure
    setting: Setting
    quantities: tuple[Quantity, ...]
    varies: bool = True


_FIRST_BATCH: Final = Quantity("first_batch_s", "s to the first batch")
_PER_WORKER: Final = Quantity("bytes_per_worker", "MB of memory per worker", size=_BYTES_PER_MB)
_OF_WORKERS: Final = Quantity(
    "bytes_of_workers", "MB of memory for the workers", size=_BYTES_PER_MB
)


def _speed(setting: Setting, *others: Quantity) -> Trial:
    speed = Quantity("elements_per_s", "elements/s", str(setting))
    return Trial(measures.measure_speed, setting, (speed, *others))


def _content(measure: Measure, setting: Setting, name: str, unit: str) -> tuple[Trial, ...]:
    return (Trial(measure, setting, (Quantity(name, unit),), varies=False),)


_CRASH: Final = _content(
    measures.count_batches_before_crash,
    _PLAIN,
    "batches",
    f"of the first {measures.CRASH_BATCHES} batches",
)

CATALOGUE: Final[Mapping[str, tuple[Trial, ...]]] = {
    "batch-after-mp-prefetch": (_speed(CPU), _speed(LIGHT)),
    "map-after-mp-prefetch": (_speed(CPU),),
    "nested-mp-prefetch": _CRASH,
    "threads-in-workers": (_speed(CPU), _speed(LIGHT), _speed(REMOTE)),
    "threads-in-training-process": (_speed(CPU), _speed(LIGHT), _speed(REMOTE)),
    "too-few-reads-in-flight": (_speed(REMOTE),),
    "batch-in-workers-loses-data": _content(
        measures.count_delivered_elements,
        _EPOCH,
        "elements",
        f"of {_EPOCH.rows:,} elements reach the trainer in an epoch, at batches of"
        f" {_EPOCH.batch} and {_EPOCH.workers} workers",
    ),
    "worker-count-changes-order": _content(
        measures.count_worker_dependent_batches,
        _PLAIN,
        "batches",
        f"of the first {measures.BATCHES} batches change between 1 and 2 workers",
    ),
    "shuffle-after-batch": _content(
        measures.count_neighbours,
        _PLAIN,
        "elements",
        f"of a batch's {_PLAIN.batch} elements lie next to another one of it in the data set",
    ),
    "shuffle-after-repeat": _content(
        measures.count_distinct_elements,
        _EPOCHS,
        "elements",
        f"of {_EPOCHS.rows:,} elements come in the first epoch of 10",
    ),
    "sequential-slice-with-shuffle": _content(
        measures.count_one_sided_batches,
        _PLAIN,
        "batches",
        f"of the first {measures.BATCHES} batches come from one half of the data set, with"
        f" {_PLAIN.workers} workers",
    ),
    "large-capture": (Trial(measures.measure_speed, _PLAIN, (_PER_WORKER, _FIRST_BATCH)),),
    "device-put-before-mp-prefetch": _CRASH,
    "no-prefetch": (
        Trial(
            measures.measure_training,
            CPU,
            (
                Quantity(
                    "steps_per_s",
                    "steps/s",
                    f"when a batch and a step take {1e3 * CPU.step_s:g} ms each",
                ),
            ),
        ),
    ),
    "no-workers": (_speed(CPU),),
    "too-many-workers": (_speed(CPU, _FIRST_BATCH, _OF_WORKERS),),
    "oversized-read-buffer": (
        Trial(
            measures.measure_buffers,
            _PLAIN,
            (
                Quantity(
                    "bytes_of_all",
                    "MB of memory",
                    f"at batches of {_PLAIN.batch} rows of 16 KiB",
                    _BYTES_PER_MB,
                ),
            ),
        ),
    ),
    "jax-in-worker": (Trial(measures.measure_speed, _PLAIN, (_PER_WORKER, _FIRST_BATCH)),),
    "cannot-be-pickled": _CRASH,
}
