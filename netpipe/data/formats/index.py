"""The index beside the shards: what is in them, so that contexts are planned without reading."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

import cattrs
import numpy as np
from numpy.typing import NDArray

from netpipe.data.formats.layout import check_layout_version
from netpipe.errors import InputError

INDEX_NAME = "index.json"
INDEX_SCHEMA = "netpipe.index/1"


@dataclass(frozen=True)
class Shard:
    """One ArrayRecord file.

    Attributes:
        file: Its name, beside the index.
        row_measurements: How many measurements each of its records has, in order.
    """

    file: str
    row_measurements: tuple[int, ...]


@dataclass(frozen=True)
class Split:
    """The probes of one purpose, "train" or "eval".

    Attributes:
        probes: How many there are.
        shards: Where their rows are.
    """

    probes: int
    shards: tuple[Shard, ...]

    @property
    def row_measurements(self) -> NDArray[np.int64]:
        """Measurements of every row, int64 (rows,), shard after shard."""
        counts = [np.array(shard.row_measurements, np.int64) for shard in self.shards]
        return np.concatenate(counts) if counts else np.zeros(0, np.int64)

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return sum(len(shard.row_measurements) for shard in self.shards)

    @property
    def measurements(self) -> int:
        """How many measurements there are."""
        return sum(sum(shard.row_measurements) for shard in self.shards)


@dataclass(frozen=True)
class Index:
    """What a folder of prepared data holds.

    Attributes:
        layout_version: The layout of its records.
        seed: Chose the probes of the splits.
        eval_fraction: The share of probes meant for "eval".
        row_bytes: The most that the arrays of a row take.
        fingerprint: A hash of every row: the same measurements in the same order, prepared in
            the same way, have the same one.
        train: The probes to train on.
        eval: The probes to evaluate on.
    """

    layout_version: int
    seed: int
    eval_fraction: float
    row_bytes: int
    fingerprint: str
    train: Split
    eval: Split

    def split(self, name: str) -> Split:
        """Return the split of this name, "train" or "eval"."""
        return self.train if name == "train" else self.eval


def save_index(index: Index, folder: Path) -> None:
    """Write the index into a folder."""
    document = {"schema": INDEX_SCHEMA, **asdict(index)}
    (folder / INDEX_NAME).write_text(json.dumps(document) + "\n", encoding="utf-8")


def load_index(folder: Path) -> Index:
    """Read the index of a folder.

    Raises:
        InputError: It is missing, damaged, or of a newer version.
    """
    path = folder / INDEX_NAME
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        way_out = "Make the folder with `netpipe prepare` or `netpipe generate`"
        raise InputError(path, "index", "be readable", error.strerror, way_out) from error
    except ValueError as error:
        raise _damaged(path, error) from error
    found = document.get("schema") if isinstance(document, dict) else None
    if found != INDEX_SCHEMA:
        raise InputError(path, "schema", f'be "{INDEX_SCHEMA}"', repr(found))
    try:
        index = cattrs.structure(document, Index)
    except Exception as error:  # cattrs lets through whatever a converter raises
        raise _damaged(path, error) from error
    check_layout_version(index.layout_version, path)
    return index


def is_index(path: Path) -> bool:
    """Tell whether a file is an index of ours, of whatever version."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(document, dict) and str(document.get("schema")).startswith("netpipe.index/")


def _damaged(path: Path, error: Exception) -> InputError:
    reason = str(error).splitlines()[0]
    return InputError(path, "index", "be a whole index", reason, "Prepare the data again")
