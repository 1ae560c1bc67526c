"""Prepared folders: probe rows in ArrayRecord shards, split by probe.

`prepare` makes one from parquet measurements, `convert` one from inherited files of layout 0.
"""

import hashlib
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from netpipe.data.formats.addresses import AddressTable
from netpipe.data.formats.index import Index, Split, save_index
from netpipe.data.formats.layout import LAYOUT_VERSION, decode_history_v0, encode_row
from netpipe.data.formats.parquet import find_parquet, open_parquet, read_parquet
from netpipe.data.formats.rows import (
    MEASUREMENT,
    ROW_BYTES,
    MeasurementArray,
    cut_rows,
    split_by_probe,
)
from netpipe.data.formats.shards import ShardWriter
from netpipe.data.preparation.output_folder import whole_folder
from netpipe.data.preparation.split import EVAL_FRACTION, find_eval_files, split_rows
from netpipe.data.sampling.counter_rng import fold_key
from netpipe.data.sources.probe_rows import UnindexedSource, find_array_records
from netpipe.errors import InputError

Progress = Callable[[int, int], None]
"""Called with the work done and the total; `prepare` counts a measurement when read and written."""

_BUCKETS = 64


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
    """Turn parquet measurements into a folder that a pipeline can read, and return its index.

    The sources are parquet files, or folders of them. Prepared data in `out` are replaced when the
    new ones are complete. Unless file names state the split, the seed chooses `eval_fraction` of
    the probes for evaluation. The train split has `shards` files, the eval split `eval_fraction` as
    many, and the arrays of a row take at most `row_bytes`.

    Memory holds 1/64 of the measurements (one bucket of the spill) and the distinct addresses; the
    rest is on disk, beside `out`.

    Raises:
        InputError: A setting, a source, a value in it, or `out` is invalid. `out` is then
            unchanged.
    """
    _require_at_least(0, seed=seed)
    _require_at_least(1, shards=shards)
    _require_at_least(1024, row_bytes=row_bytes)
    if not 0 < eval_fraction < 1:
        raise InputError("split", "eval_fraction", "be between 0 and 1", eval_fraction)
    files = find_parquet(sources)
    eval_files = find_eval_files(files, sources)
    work = 2 * sum(open_parquet(file).metadata.num_rows for file in files)
    advance = _count_progress(progress, work)
    addresses = AddressTable()
    with whole_folder(out, files) as folder:
        with tempfile.TemporaryDirectory(prefix=".spill.", dir=folder) as spilled:
            spill = Spill(Path(spilled))
            in_file = [_read(file, spill, addresses, advance) for file in files]
            probes = np.concatenate(in_file)
            file_of_probe = np.repeat(np.arange(len(files)), [len(found) for found in in_file])
            in_eval = split_rows(
                probes, file_of_probe, files, eval_files, seed=seed, eval_fraction=eval_fraction
            )
            eval_probes = set(probes[in_eval].tolist())
            eval_shards = max(1, round(shards * eval_fraction))
            writer = _RowWriter(folder, {"train": shards, "eval": eval_shards}, row_bytes)
            for history in spill.histories():
                split = "eval" if int(history["probe"][0]) in eval_probes else "train"
                writer.write(split, history, addresses)
                advance(len(history))
        return writer.close(seed=seed, eval_fraction=eval_fraction)


def is_inherited(folder: Path) -> bool:
    """Return whether a folder has ArrayRecord files to convert and no parquet files."""
    return bool(find_array_records(folder)) and not any(folder.rglob("*.parquet"))


def convert(
    folder: Path,
    out: Path,
    *,
    seed: int = 0,
    row_bytes: int = ROW_BYTES,
    progress: Progress | None = None,
) -> Index:
    """Rewrite a folder's inherited rows in the newest layout, as `prepare` does with measurements.

    Rows keep their order, in one file per split, and rows above `row_bytes` are cut. If none is
    cut, the same seed draws the same contexts from the converted rows as from the inherited ones.

    Raises:
        InputError: The seed, a record, a value in it, or `out` is invalid. `out` is then
            unchanged.
    """
    _require_at_least(0, seed=seed)
    sources = {split: UnindexedSource(folder, split, seed=seed) for split in ("train", "eval")}
    total = sum(int(source.row_measurements.sum()) for source in sources.values())
    advance = _count_progress(progress, total)
    with whole_folder(out, find_array_records(folder)) as building:
        writer = _RowWriter(building, {"train": 1, "eval": 1}, row_bytes)
        for split, source in sources.items():
            for record, where in source.records():
                history, addresses = decode_history_v0(record, where)
                writer.write(split, history, addresses)
                advance(len(history))
        return writer.close(seed=seed, eval_fraction=EVAL_FRACTION)


def _require_at_least(minimum: int, **settings: int) -> None:
    for name, value in settings.items():
        if value < minimum:
            raise InputError("prepare", name, f"be at least {minimum}", value)


def _count_progress(progress: Progress | None, total: int) -> Callable[[int], None]:
    done = 0

    def advance(measurements: int) -> None:
        nonlocal done
        done += measurements
        if progress:
            progress(done, total)

    return advance


class Spill:
    """Measurements sorted by probe in an empty folder, which the caller removes.

    They are spread over buckets by a hash of the probe; then one bucket at a time is sorted in
    memory.
    """

    def __init__(self, folder: Path) -> None:
        self._files = [folder / f"{bucket:02d}" for bucket in range(_BUCKETS)]

    def add(self, measurements: MeasurementArray) -> None:
        """Append measurements to their buckets."""
        bucket = (fold_key(measurements["probe"]) % np.uint64(_BUCKETS)).astype(np.uint8)
        order = np.argsort(bucket, kind="stable")
        ends = np.cumsum(np.bincount(bucket, minlength=_BUCKETS))
        for file, part in zip(self._files, np.split(measurements[order], ends[:-1]), strict=True):
            with file.open("ab") as stream:
                stream.write(part.tobytes())

    def histories(self) -> Iterator[MeasurementArray]:
        """Yield each probe's measurements in time order; equal times keep their order."""
        for file in self._files:
            yield from split_by_probe(np.fromfile(file, MEASUREMENT))


class _RowWriter:
    """Writes histories as rows into the shards of both splits, and then their index."""

    def __init__(self, folder: Path, shards: Mapping[str, int], row_bytes: int) -> None:
        self._folder = folder
        self._row_bytes = row_bytes
        self._shards = {name: ShardWriter(folder, name, count) for name, count in shards.items()}
        self._probes: dict[str, set[int]] = {name: set() for name in shards}
        self._fingerprint = hashlib.blake2b(digest_size=16)

    def write(self, split: str, history: MeasurementArray, addresses: AddressTable) -> None:
        """Write measurements (n,), n >= 1, of one probe and in time order."""
        self._probes[split].add(int(history["probe"][0]))
        for row in cut_rows(history, addresses, self._row_bytes):
            record = encode_row(row)
            self._fingerprint.update(record)
            self._shards[split].write(record, len(row))

    def close(self, *, seed: int, eval_fraction: float) -> Index:
        """Finish the shards, write the index and return it."""
        splits = {
            name: Split(len(self._probes[name]), writer.close())
            for name, writer in self._shards.items()
        }
        index = Index(
            layout_version=LAYOUT_VERSION,
            seed=seed,
            eval_fraction=eval_fraction,
            row_bytes=self._row_bytes,
            fingerprint=self._fingerprint.hexdigest(),
            train=splits["train"],
            eval=splits["eval"],
        )
        save_index(index, self._folder)
        return index


def _read(
    file: Path, spill: Spill, addresses: AddressTable, advance: Callable[[int], None]
) -> NDArray[np.int64]:
    """Add the measurements of a file to the spill, and return its distinct probes."""
    found: list[NDArray[np.int64]] = []
    for measurements in read_parquet(file, addresses):
        spill.add(measurements)
        found.append(np.unique(measurements["probe"]))
        advance(len(measurements))
    return np.unique(np.concatenate(found))
