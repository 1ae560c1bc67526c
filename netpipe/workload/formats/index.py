"""The index beside the shards: the sizes of their rows, from which contexts are planned."""

import json
from collections import Counter
from dataclasses import dataclass
from itertools import chain
from pathlib import Path, PurePath
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from netpipe.errors import InputError
from netpipe.files.text_files import quote, read_json
from netpipe.results.fields import Count, Document, MayBeAbsent, Must, PositiveCount, parse
from netpipe.workload.formats.dropped import Dropped
from netpipe.workload.formats.layout import check_layout_version

INDEX_NAME = "index.json"
_AGAIN = "Prepare the data again"
_Int32 = Annotated[int, Must(minimum=1, maximum=2**31 - 1)]


@dataclass(frozen=True)
class Shard:
    """An ArrayRecord file beside the index."""

    file: Annotated[str, Must(pattern=r"\.arrayrecord$")]
    #: The number of measurements in each record, in order.
    row_measurements: Annotated[tuple[_Int32, ...], Must(minItems=1)]


@dataclass(frozen=True)
class Split:
    """The number of probes for training or for evaluation, and the shards of their rows."""

    probes: Count
    shards: tuple[Shard, ...]  #: Empty if file names assign all data to the other split.

    @property
    def row_measurements(self) -> NDArray[np.int64]:
        """The number of measurements in each row, int64 (rows,), shard by shard."""
        counts = chain.from_iterable(shard.row_measurements for shard in self.shards)
        return np.fromiter(counts, np.int64)

    @property
    def rows(self) -> int:
        """The number of rows."""
        return len(self.row_measurements)

    @property
    def measurements(self) -> int:
        """The number of measurements."""
        return int(self.row_measurements.sum())


@dataclass(frozen=True)
class Index(Document):
    """The contents of a folder of prepared data: the index beside its shards."""

    SCHEMA = "netpipe.index/1"

    layout_version: Count  #: The version of the records' layout.
    seed: Count  #: The seed that split the probes.
    #: The fraction of the probes that is chosen for evaluation.
    eval_fraction: Annotated[float, Must(exclusiveMinimum=0, exclusiveMaximum=1)]
    row_bytes: PositiveCount  #: The maximum size of a row's arrays, in bytes.
    #: A hash of all rows; equal measurements prepared in the same way have the same hash.
    fingerprint: Annotated[str, Must(pattern="^[0-9a-f]{32}$")]
    train: Split
    eval: Split
    #: Names of the files in the folder `parquet` that the generated rows were made from.
    parquet: MayBeAbsent[tuple[Annotated[str, Must(pattern=r"\.parquet$")], ...]] = ()
    #: Rows that were dropped because of an invalid value, by column and constraint.
    dropped: MayBeAbsent[tuple[Dropped, ...]] = ()

    @property
    def files(self) -> list[PurePath]:
        """All files of the data set except the index, relative to the folder."""
        shards = [PurePath(shard.file) for shard in (*self.train.shards, *self.eval.shards)]
        return shards + [PurePath("parquet", name) for name in self.parquet]

    def split(self, name: str) -> Split:
        """Return the split of this name, "train" or "eval"."""
        return self.train if name == "train" else self.eval


def save_index(index: Index, folder: Path) -> None:
    """Write the index into a folder."""
    (folder / INDEX_NAME).write_text(f"{json.dumps(index.to_document())}\n", encoding="utf-8")


def load_index(folder: Path) -> Index:
    """Read the index of a folder; raise an InputError if it is missing, damaged or too new."""
    # Loader workers import this module but never read an index.
    from netpipe.results.documents import check_document, check_schema

    path = folder / INDEX_NAME
    way_out = "Make the folder with `netpipe prepare` or `netpipe generate`"
    document = read_json(path, way_out)
    found = document.get("schema") if isinstance(document, dict) else None
    check_schema(found, (Index.SCHEMA,), path, way_out=way_out)
    check_document(document, "index.1", path, way_out)
    index = parse(document, Index, path)
    check_layout_version(index.layout_version, path)
    _check_files(index, path)
    return index


def is_data_file(file: PurePath) -> bool:
    """Return whether a path relative to a folder can belong to the folder's data set."""
    folder, suffix = (".", ".arrayrecord") if len(file.parts) == 1 else ("parquet", ".parquet")
    return str(file.parent) == folder and file.suffix == suffix and file.name.isprintable()


def _check_files(index: Index, path: Path) -> None:
    for file, times in Counter(index.files).items():
        # `prepare` deletes these files when it replaces them, so none may be outside the folder.
        if not is_data_file(file):
            constraint = "be *.arrayrecord or parquet/*.parquet"
            raise InputError(path, "file", constraint, quote(str(file)), _AGAIN)
        if times > 1:
            raise InputError(path, "file", f"name {file} once", f"{times} times", _AGAIN)
    for name in ("train", "eval"):
        split = index.split(name)
        if split.probes > split.rows:
            constraint = f"be at most {split.rows}, the number of rows"
            raise InputError(path, f"{name}.probes", constraint, split.probes, _AGAIN)
