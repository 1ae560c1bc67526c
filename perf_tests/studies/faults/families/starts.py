"""Loaders whose first batch takes long, for various reasons."""

from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import grain

from perf_tests.studies.faults.cases import STEP_S, Case, Range, Values, load_s
from perf_tests.studies.faults.parts.batches import Array
from perf_tests.studies.faults.parts.delays import Steady, wait
from perf_tests.studies.faults.parts.grain_loaders import Rows, Stages
from perf_tests.studies.faults.planted import starts_slowly

_SLOW = {"step_s": STEP_S, "load_ratio": Range(0.3, 0.5), "start_s": Range(12.0, 15.0)}


@dataclass(frozen=True)
class Arriving(Rows):
    """A source that is slow to unpickle, like a list of millions of names."""

    arriving_s: float = 0.0

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        wait(self.arriving_s)


@dataclass(frozen=True)
class Opening(Rows):
    """A source that opens its files at its first read, which takes long."""

    opening_s: float = 0.0

    def __getitem__(self, number: int) -> Array:
        _open(self.opening_s)
        return super().__getitem__(number)


@cache
def _open(opening_s: float) -> None:
    wait(opening_s)  # once in each process


def _reading(values: Values, rows: Rows) -> Stages:
    return Stages(transform=Steady(load_s(values)), by_batch=True, source=rows)


def _building_an_index(values: Values) -> grain.IterDataset:
    wait(values["start_s"])
    return _reading(values, Rows()).iter_dataset()


CASES: Final = (
    Case(
        "index-at-each-start",
        "slow-start",
        "loader() builds an index each time",
        (),
        _building_an_index,
        _SLOW,
        finding="slow-start",
        names="part is loader()",
        planted=starts_slowly("loader"),
    ),
    Case(
        "dataset-sent-to-a-worker",
        "slow-start",
        "the data set takes long to arrive in the worker",
        (),
        lambda values: _reading(values, Arriving(arriving_s=values["start_s"])).in_workers(1),
        _SLOW,
        finding="slow-start",
        names="part is work after loader()",
        planted=starts_slowly("workers"),
    ),
    Case(
        "slow-first-read",
        "slow-start",
        "the source opens its files when it is first read",
        (),
        lambda values: _reading(values, Opening(opening_s=values["start_s"])).iter_dataset(),
        _SLOW,
        finding="slow-start",
        names="part is work after loader()",
        planted=starts_slowly("read"),
    ),
    Case(
        "fine-short-start",
        "slow-start",
        "loader() builds an index in a second or two",
        ("healthy",),
        _building_an_index,
        {**_SLOW, "start_s": Range(1.0, 2.5)},
    ),
)
