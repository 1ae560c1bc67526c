"""The plan of `prepare`: the sources, cut into slices of about equal, bounded size."""

import hashlib
import json
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from netpipe import __version__
from netpipe.errors import InputError
from netpipe.workload.formats.layout import LAYOUT_VERSION
from netpipe.workload.formats.parquet import distinct_files, find_parquet, open_parquet
from netpipe.workload.formats.places import Place, find_place
from netpipe.workload.formats.rows import ROW_BYTES
from netpipe.workload.preparation.split import find_splits

SLICE_ROWS = 5 << 18
"""Approximate maximum number of rows in a slice; a smaller input is prepared in one process."""

_BUCKETS = 64
_BUCKET_ROWS = 1 << 19  # on average
# Opening a remote file takes several requests, one after the other.
_OPENED_AT_ONCE = 16


@dataclass(frozen=True)
class SourceFile:
    """A parquet file, the number of rows in each row group, and the file's name, size and time."""

    place: Place
    group_rows: tuple[int, ...]
    identity: tuple[str, int, int]


@dataclass(frozen=True)
class Slice:
    """Consecutive row groups of one or several files.

    `split` is the split that the file names state, or "".
    """

    number: int
    rows: int
    parts: tuple[tuple[Place, tuple[int, ...]], ...]
    split: str


@dataclass(frozen=True)
class Plan:
    """The slices, the number of buckets for the probes, and a hash of sources and settings."""

    files: tuple[SourceFile, ...]
    slices: tuple[Slice, ...]
    buckets: int
    key: str

    @property
    def rows(self) -> int:
        """The number of rows in all sources."""
        return sum(each.rows for each in self.slices)

    @property
    def is_small(self) -> bool:
        """Whether all rows fit in one slice."""
        return self.rows <= SLICE_ROWS


def make_plan(sources: Sequence[Path | str], settings: dict[str, object], shards: int) -> Plan:
    """Find the sources and cut them into slices.

    Raises:
        InputError: A source does not exist or is not a parquet file, or file names contradict each
            other about the split.
    """
    given = list(map(find_place, sources))
    places = _find_files(given)
    with ThreadPoolExecutor(_OPENED_AT_ONCE) as executor:
        files = tuple(executor.map(_open, places))
    # The paths of a source's files may state a split below its folder.
    folders = [
        _named_path(each).parent if each.info().is_file else _named_path(each) for each in given
    ]
    splits = find_splits(list(map(_named_path, places)), folders)
    slices = tuple(_cut(files, splits))
    rows = sum(each.rows for each in slices)
    many = max(shards, -(-rows // _BUCKET_ROWS)) if rows > SLICE_ROWS else 0
    constants = __version__, LAYOUT_VERSION, ROW_BYTES, SLICE_ROWS, _BUCKET_ROWS
    about = [constants, settings, [file.identity for file in files]]
    key = hashlib.blake2b(json.dumps(about).encode(), digest_size=16).hexdigest()
    return Plan(files, slices, max(_BUCKETS, many), key)


def _find_files(sources: Sequence[Place]) -> list[Place]:
    """Return the parquet files: `find_parquet` finds local ones, their file system the others."""
    found: dict[str, Place] = {}
    for place in sources:
        if place.is_local:
            found |= {str(path): Place.local(path) for path in find_parquet(Path(place.name))}
            continue
        inside = [place]
        if not place.info().is_file:
            inside = [file for file, _ in place.files() if file.path.endswith(".parquet")]
        if not inside:
            raise InputError(place, "source", "hold *.parquet files", "none")
        found |= {str(file): file for file in inside}
    # Two local paths can lead to the same file.
    once = set(distinct_files([Path(place.name) for place in found.values() if place.is_local]))
    return [each for each in found.values() if not each.is_local or Path(each.name) in once]


def _named_path(place: Place) -> Path:
    return Path(place.name if place.is_local else place.name.partition("?")[0])


def _open(place: Place) -> SourceFile:
    metadata = open_parquet(place).metadata
    groups = (metadata.row_group(number).num_rows for number in range(metadata.num_row_groups))
    info = place.info()
    identity = str(place), info.size, info.mtime_ns or 0
    return SourceFile(place, tuple(groups), identity)


def _cut(files: Sequence[SourceFile], splits: Sequence[str]) -> Iterator[Slice]:
    number, rows, split, parts = 0, 0, splits[0], dict[int, list[int]]()

    def make() -> Slice:
        groups = ((files[file].place, tuple(numbers)) for file, numbers in parts.items())
        return Slice(number, rows, tuple(groups), split)

    for file, stated in enumerate(splits):
        for group, group_rows in enumerate(files[file].group_rows):
            if rows and (rows + group_rows > SLICE_ROWS or stated != split):
                yield make()
                number, rows, parts = number + 1, 0, {}
            split = stated
            parts.setdefault(file, []).append(group)
            rows += group_rows
    yield make()
