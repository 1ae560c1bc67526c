"""The phases of `prepare`: slices of the sources become sorted runs, and runs become shards."""

import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from netpipe.workload.formats.addresses import AddressTable
from netpipe.workload.formats.dropped import Dropped, join_dropped
from netpipe.workload.formats.parquet import MergedProbesWarning, read_parquet
from netpipe.workload.formats.places import Place
from netpipe.workload.formats.rows import MeasurementArray, split_sorted
from netpipe.workload.preparation.plan import SLICE_ROWS, Slice
from netpipe.workload.preparation.rows_writer import SPLITS, RowsWriter, WrittenRows
from netpipe.workload.preparation.runs import Run, read_bucket, write_run
from netpipe.workload.preparation.split import (
    EvalChoice,
    Extremes,
    both_splits_error,
    find_extremes,
)
from netpipe.workload.preparation.tasks import Advance, Task

RUN_ADDRESSES = 1 << 19
"""A run ends at this many distinct addresses; each takes about 300 bytes of memory."""


@dataclass(frozen=True)
class SliceResult:
    """The result of a slice: file names of its runs, extremes, dropped rows, and a warning.

    `extremes` holds the extremes of each run's probes; `merged` is the text of a
    `MergedProbesWarning`, or "".
    """

    runs: tuple[str, ...]
    extremes: tuple[Extremes, ...]
    dropped: tuple[Dropped, ...]
    merged: str


@dataclass(frozen=True)
class SliceTask(Task):
    """Checks and sorts a slice into one run, or several if it is large or has many addresses."""

    slice: Slice
    buckets: int
    seed: int
    drops_invalid: bool

    result_type: ClassVar[type[SliceResult]] = SliceResult

    def do(self, advance: Advance) -> SliceResult:
        """Read the slice once, write its runs, and return the result."""
        dropped: list[Dropped] | None = [] if self.drops_invalid else None
        addresses, runs, extremes = AddressTable(), list[str](), list[Extremes]()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", MergedProbesWarning)
            for measurements in filter(len, self._read(addresses, dropped, advance)):
                extremes.append(find_extremes(np.unique(measurements["probe"]), self.seed))
                runs.append(f"{self.name}-{len(runs)}.run")
                write_run(self.work / runs[-1], measurements, addresses, self.buckets)
        found = (str(each.message) for each in caught if each.category is MergedProbesWarning)
        merged = next(found, "")
        return SliceResult(tuple(runs), tuple(extremes), join_dropped(dropped or ()), merged)

    def _read(
        self, addresses: AddressTable, dropped: list[Dropped] | None, advance: Advance
    ) -> Iterator[MeasurementArray]:
        """Yield measurements, at most about a slice at a time; clear `addresses` in between."""
        read = list[MeasurementArray]()
        for place, groups in self.slice.parts:
            for part in read_parquet(place, addresses, groups, dropped=dropped):
                read.append(part)
                advance(len(part))
                if sum(map(len, read)) >= SLICE_ROWS or len(addresses) >= RUN_ADDRESSES:
                    yield _join(read)
                    addresses.clear()
        if any(map(len, read)):
            yield _join(read)


def _join(read: list[MeasurementArray]) -> MeasurementArray:
    """Return the measurements concatenated, and clear the list."""
    joined = np.concatenate(read)
    read.clear()
    return joined


@dataclass(frozen=True)
class ShardTask(Task):
    """Writes the rows of some buckets to `files[split]` files of each split, round-robin.

    `choice` is None if the file names state the split.
    """

    buckets: tuple[int, ...]
    files: Mapping[str, int]
    runs: tuple[tuple[Slice, Run], ...]
    choice: EvalChoice | None

    result_type: ClassVar[type[WrittenRows]] = WrittenRows

    def do(self, advance: Advance) -> WrittenRows:
        """Write the rows bucket by bucket, and return the shards."""
        with tempfile.TemporaryDirectory(prefix=f"{self.name}-", dir=self.work.path) as folder:
            writer = RowsWriter(Path(folder), f"{self.name}-", self.files)
            probes = Counter[str]()
            for bucket in self.buckets:
                self._write(bucket, writer, probes, advance)
            written = writer.close(probes)
            for file in Path(folder).iterdir():
                file.rename(Path(self.work.path, file.name))
        return written

    def _write(
        self, bucket: int, writer: RowsWriter, probes: Counter[str], advance: Advance
    ) -> None:
        """Write the rows of a bucket, and add its probes to the counts per split."""
        is_eval = self.choice.is_eval if self.choice else self._stated_split(bucket)
        last = None
        for measurements, addresses in read_bucket([run for _, run in self.runs], bucket):
            histories = split_sorted(measurements)
            found = np.array([history["probe"][0] for history in histories])
            for probe, evaluates, history in zip(
                found.tolist(), is_eval(found).tolist(), histories, strict=True
            ):
                split = "eval" if evaluates else "train"
                writer.write(split, history, addresses)
                probes[split] += probe != last
                last = probe
            advance(len(measurements))

    def _stated_split(self, bucket: int) -> Callable[[NDArray[np.int64]], NDArray[np.bool_]]:
        """Return a function that finds the probes in files whose names state the eval split.

        Raises:
            InputError: A probe is in files of both splits.
        """
        found = [(part, np.unique(run.section(bucket).read()["probe"])) for part, run in self.runs]
        none = np.empty(0, np.int64)
        train, evaluation = (
            np.unique(np.concatenate([none, *(has for part, has in found if part.split == split)]))
            for split in SPLITS
        )
        for probe in np.intersect1d(train, evaluation).tolist():
            having = [part for part, has in found if probe in has]
            first = (next(part for part in having if part.split == split) for split in SPLITS)
            raise both_splits_error(probe, *(_find_file(part, probe) for part in first))
        return lambda probes: np.isin(probes, evaluation)


def _find_file(part: Slice, probe: int) -> Place:
    """Return the first file in a slice that contains a probe, to name it in an error."""
    for place, groups in part.parts:
        for measurements in read_parquet(place, AddressTable(), groups, dropped=[]):
            if probe in measurements["probe"]:
                return place
    return part.parts[0][0]
