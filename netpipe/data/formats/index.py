"""The index beside the shards: the sizes of their rows, from which contexts are planned."""

import json
from dataclasses import asdict, dataclass
from itertools import chain
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
    """An ArrayRecord file beside the index, and the number of measurements in each record."""

    file: str
    row_measurements: tuple[int, ...]


@dataclass(frozen=True)
class Split:
    """The number of probes for training or for evaluation, and the shards of their rows."""

    probes: int
    shards: tuple[Shard, ...]

    @property
    def row_measurements(self) -> NDArray[np.int64]:
        """Measurements of every row, int64 (rows,), shard after shard."""
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
class Index:
    """The contents of a folder of prepared data.

    Attributes:
        seed: Chose the probes of the splits.
        eval_fraction: The fraction of the probes that is chosen for evaluation.
        row_bytes: The largest size of a row's arrays.
        fingerprint: A hash of every row, equal for equal measurements prepared in the same way.
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
    document = json.dumps({"schema": INDEX_SCHEMA, **asdict(index)})
    (folder / INDEX_NAME).write_text(f"{document}\n", encoding="utf-8")


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
    """Return whether a file is an index of any version."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(document, dict) and str(document.get("schema")).startswith("netpipe.index/")


def _damaged(path: Path, error: Exception) -> InputError:
    reason = str(error).splitlines()[0]
    return InputError(path, "index", "be a whole index", reason, "Prepare the data again")
