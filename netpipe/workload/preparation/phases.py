"""The first phase of `prepare`: a slice of the sources is checked, and sorted into buckets."""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from netpipe.workload.formats.addresses import AddressTable
from netpipe.workload.formats.dropped import Dropped, DroppedRows
from netpipe.workload.formats.parquet import MergedProbesWarning, read_parquet
from netpipe.workload.formats.places import Place
from netpipe.workload.formats.rows import MeasurementArray
from netpipe.workload.preparation.plan import SLICE_ROWS, Slice
from netpipe.workload.preparation.runs import write_run
from netpipe.workload.preparation.split import Extremes, find_extremes
from netpipe.workload.preparation.tasks import Advance, Task


@dataclass(frozen=True)
class SliceResult:
    """What a slice was found to hold.

    Attributes:
        runs: The names of the files that were written.
        extremes: Those of the probes, unless there are none.
        merged: What a `MergedProbesWarning` said, "" without one.
    """

    runs: tuple[str, ...]
    extremes: tuple[Extremes, ...]
    dropped: tuple[Dropped, ...]
    merged: str


@dataclass(frozen=True)
class SliceTask(Task):
    """Writes runs: one, or more if a row group is larger than a slice.

    Attributes:
        drops_invalid: Whether a row with an invalid value is dropped and counted, or is an error.
    """

    slice: Slice
    buckets: int
    seed: int
    drops_invalid: bool

    result_type: ClassVar[type[SliceResult]] = SliceResult

    def do(self, advance: Advance) -> SliceResult:
        """Read the slice once."""
        dropped = DroppedRows() if self.drops_invalid else None
        addresses, runs, extremes = AddressTable(), list[str](), list[Extremes]()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", MergedProbesWarning)
            for measurements in self._read(addresses, dropped, advance):
                extremes.append(find_extremes(np.unique(measurements["probe"]), self.seed))
                runs.append(f"{self.name}-{len(runs)}.run")
                write_run(self.work / runs[-1], measurements, addresses, self.buckets)
        merged = [str(each.message) for each in caught if each.category is MergedProbesWarning]
        for each in caught:
            if each.category is not MergedProbesWarning:
                warnings.warn_explicit(each.message, each.category, each.filename, each.lineno)
        counts = dropped.counts() if dropped else ()
        return SliceResult(tuple(runs), tuple(extremes), counts, merged[0] if merged else "")

    def _read(
        self, addresses: AddressTable, dropped: DroppedRows | None, advance: Advance
    ) -> Iterator[MeasurementArray]:
        """Yield the measurements, as many at a time as a slice has."""
        read = list[MeasurementArray]()
        for place, groups in self.slice.parts:
            for part in read_parquet(place, addresses, groups, dropped=dropped):
                read.append(part)
                advance(len(part))
                if sum(map(len, read)) >= SLICE_ROWS:
                    yield _join(read)
        if any(map(len, read)):
            yield _join(read)


def _join(read: list[MeasurementArray]) -> MeasurementArray:
    """Return all measurements, and keep none in the list."""
    joined = np.concatenate(read)
    read.clear()
    return joined


def find_file(part: Slice, probe: int) -> Place:
    """Return the first file of a slice that has a probe, for an error."""
    for place, groups in part.parts:
        for measurements in read_parquet(place, AddressTable(), groups, dropped=DroppedRows()):
            if probe in measurements["probe"]:
                return place
    return part.parts[0][0]
