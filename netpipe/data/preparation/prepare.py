"""parquet measurements -> probe rows in ArrayRecord shards, split by probe."""

import hashlib
import tempfile
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from netpipe.data.formats.addresses import AddressTable
from netpipe.data.formats.index import Index, Split, save_index
from netpipe.data.formats.layout import LAYOUT_VERSION, encode_row
from netpipe.data.formats.parquet import find_parquet, open_parquet, read_parquet
from netpipe.data.formats.rows import ROW_BYTES, cut_rows
from netpipe.data.formats.shards import ShardWriter
from netpipe.data.preparation.output_folder import whole_folder
from netpipe.data.preparation.spill import Spill
from netpipe.data.preparation.split import (
    EVAL_FRACTION,
    check_eval_fraction,
    find_eval_files,
    split_rows,
)
from netpipe.errors import InputError

Progress = Callable[[int, int], None]
"""Called with the work done and all of it; a measurement counts twice: when read, when written."""


def prepare(
    sources: Sequence[Path],
    out: Path,
    *,
    seed: int = 0,
    shards: int = 8,
    row_bytes: int = ROW_BYTES,
    eval_fraction: float = EVAL_FRACTION,
    progress: Progress | None = None,
) -> Index:
    """Turn parquet measurements into a folder that a pipeline can read.

    Memory holds a 64th of the measurements (one bucket) and the distinct addresses; the rest waits
    on disk, beside `out`.

    Args:
        sources: parquet files, or folders of them.
        out: The folder to make. One that was prepared before is replaced once the new one is whole.
        seed: Chooses which probes evaluate, unless the files' names state it; at least 0.
        shards: Files of the train split; those of eval are fewer, in proportion.
        row_bytes: The most that a row's arrays take.
        eval_fraction: The share of probes kept for the eval split, where it is chosen.
        progress: Is told how far it has come.

    Returns:
        The index, as it was written.

    Raises:
        InputError: A setting, a source, a value in it, or `out` is not what it must be. Nothing
            is then left behind, and a folder prepared before is as it was.
    """
    plan = _Plan(seed, shards, row_bytes, eval_fraction)
    files = find_parquet(sources)
    eval_files = find_eval_files(files, sources)
    report = _Report(progress, 2 * sum(open_parquet(file).metadata.num_rows for file in files))
    addresses = AddressTable()
    with whole_folder(out, files) as folder:
        with tempfile.TemporaryDirectory(prefix=".spill.", dir=folder) as spilled:
            spill = Spill(Path(spilled))
            in_file = [_read(file, spill, addresses, report) for file in files]
            probes = np.concatenate(in_file)
            in_eval = split_rows(
                probes,
                np.repeat(np.arange(len(files)), list(map(len, in_file))),
                files,
                eval_files,
                seed=seed,
                eval_fraction=eval_fraction,
            )
            eval_probes = set(probes[in_eval].tolist())
            index = _write(spill, folder, addresses, plan, eval_probes, report)
        save_index(index, folder)
    return index


@dataclass(frozen=True)
class _Plan:
    seed: int
    shards: int
    row_bytes: int
    eval_fraction: float

    def __post_init__(self) -> None:
        for name, least in (("seed", 0), ("shards", 1), ("row_bytes", 1024)):
            if getattr(self, name) < least:
                raise InputError("prepare", name, f"be at least {least}", getattr(self, name))
        check_eval_fraction(self.eval_fraction)

    @property
    def eval_shards(self) -> int:
        return max(1, round(self.shards * self.eval_fraction))


class _Report:
    def __init__(self, progress: Progress | None, total: int) -> None:
        self._progress = progress
        self._done = 0
        self._total = total

    def add(self, measurements: int) -> None:
        self._done += measurements
        if self._progress:
            self._progress(self._done, self._total)


def _read(file: Path, spill: Spill, addresses: AddressTable, report: _Report) -> NDArray[np.int64]:
    """Return the distinct probes of a file whose measurements were put into the spill."""
    found: list[NDArray[np.int64]] = []
    for measurements in read_parquet(file, addresses):
        spill.add(measurements)
        found.append(np.unique(measurements["probe"]))
        report.add(len(measurements))
    return np.unique(np.concatenate(found))


def _write(
    spill: Spill,
    folder: Path,
    addresses: AddressTable,
    plan: _Plan,
    eval_probes: Set[int],
    report: _Report,
) -> Index:
    train = ShardWriter(folder, "train", plan.shards)
    evaluation = ShardWriter(folder, "eval", plan.eval_shards)
    fingerprint = hashlib.blake2b(digest_size=16)
    for history in spill.histories():
        writer = evaluation if int(history["probe"][0]) in eval_probes else train
        for row in cut_rows(history, addresses, plan.row_bytes):
            record = encode_row(row)
            fingerprint.update(record)
            writer.write(record, len(row))
        report.add(len(history))
    return Index(
        layout_version=LAYOUT_VERSION,
        seed=plan.seed,
        eval_fraction=plan.eval_fraction,
        row_bytes=plan.row_bytes,
        fingerprint=fingerprint.hexdigest(),
        train=Split(len(spill.probes) - len(eval_probes), train.close()),
        eval=Split(len(eval_probes), evaluation.close()),
    )
