"""The second phase of `prepare`: some buckets become rows in shards of their own."""

import tempfile
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from netpipe.workload.formats.rows import split_sorted
from netpipe.workload.preparation.plan import Slice
from netpipe.workload.preparation.rows_writer import SPLITS, RowsWriter, WrittenRows
from netpipe.workload.preparation.runs import Run, read_bucket
from netpipe.workload.preparation.slice_task import find_file
from netpipe.workload.preparation.split import EvalChoice, both_splits_error
from netpipe.workload.preparation.tasks import Advance, Task


@dataclass(frozen=True)
class ShardTask(Task):
    """Writes the rows of some buckets, of both splits.

    Attributes:
        files: How many files of each split it writes; the rows take turns.
        choice: None if the names of the files state the split.
    """

    buckets: tuple[int, ...]
    files: Mapping[str, int]
    runs: tuple[tuple[Slice, Run], ...]
    choice: EvalChoice | None
    row_bytes: int

    result_type: ClassVar[type[WrittenRows]] = WrittenRows

    def do(self, advance: Advance) -> WrittenRows:
        """Read the buckets one after the other."""
        with tempfile.TemporaryDirectory(prefix=f"{self.name}-", dir=self.work.path) as folder:
            writer = RowsWriter(Path(folder), f"{self.name}-", self.files, self.row_bytes)
            probes = Counter[str]()
            for bucket in self.buckets:
                probes.update(self._write(bucket, writer, advance))
            written = writer.close(probes)
            for file in Path(folder).iterdir():
                (self.work / file.name).put(file)
        return written

    def _write(self, bucket: int, writer: RowsWriter, advance: Advance) -> Counter[str]:
        """Write the rows of a bucket, and return the number of probes in each split."""
        is_eval = self.choice.is_eval if self.choice else self._stated_split(bucket)
        probes, last = Counter[str](), None
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
        return probes

    def _stated_split(self, bucket: int) -> Callable[[NDArray[np.int64]], NDArray[np.bool_]]:
        """Return what tells which probes are for evaluation, as the names of their files state.

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
            raise both_splits_error(probe, *(find_file(part, probe) for part in first))
        return lambda probes: np.isin(probes, evaluation)
