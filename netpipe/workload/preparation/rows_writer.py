"""Rows of both splits: written as shards, joined with those of other tasks, and indexed."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from netpipe.workload.formats.addresses import Addresses
from netpipe.workload.formats.index import Split
from netpipe.workload.formats.layout import encode_row
from netpipe.workload.formats.rows import MeasurementArray, cut_rows
from netpipe.workload.formats.shards import ShardWriter

SPLITS = ("train", "eval")


@dataclass(frozen=True)
class WrittenRows:
    """What one writer wrote; the shards do not have their last names yet.

    Attributes:
        fingerprint: A hash of the rows of both splits, in the order in which they were written.
        row_hashes: A hash of the rows of each split.
    """

    fingerprint: str
    row_hashes: dict[str, str]
    train: Split
    eval: Split


class RowsWriter:
    """Writes histories as rows into files of a folder."""

    def __init__(self, folder: Path, prefix: str, files: Mapping[str, int], row_bytes: int) -> None:
        self._row_bytes = row_bytes
        self._writers = {
            split: ShardWriter([folder / f"{prefix}{split}-{n}" for n in range(files[split])])
            for split in SPLITS
        }
        self._fingerprint = hashlib.blake2b(digest_size=16)

    def write(self, split: str, history: MeasurementArray, addresses: Addresses) -> None:
        """Write measurements (n,), n >= 1, of one probe and in time order."""
        for row in cut_rows(history, addresses, self._row_bytes):
            record = encode_row(row)
            self._fingerprint.update(record)
            self._writers[split].write(record, len(row))

    def close(self, probes: Mapping[str, int]) -> WrittenRows:
        """Finish the files; `probes` are the numbers of probes that were written."""
        closed = {split: self._writers[split].close() for split in SPLITS}
        hashes = {split: row_hash for split, (row_hash, _) in closed.items()}
        train, evaluation = (Split(probes[split], closed[split][1]) for split in SPLITS)
        return WrittenRows(self._fingerprint.hexdigest(), hashes, train, evaluation)


def join_rows(
    written: Sequence[WrittenRows], place: Callable[[str, str], object]
) -> tuple[str, Split, Split]:
    """Name the files of all writers; returns the fingerprint of the data and both splits.

    A hash of the rows is part of the names, so that other rows do not overwrite them in a folder.
    `place` is called with the present and the last name of each file.
    """
    splits = []
    for name in SPLITS:
        parts: list[Split] = [getattr(each, name) for each in written]
        shards = [shard for part in parts for shard in part.shards]
        rows = _join_hashes([each.row_hashes[name] for each in written], 8)
        count = len(shards)
        names = [f"{name}-{n:05d}-of-{count:05d}-{rows}.arrayrecord" for n in range(count)]
        for shard, last in zip(shards, names, strict=True):
            place(shard.file, last)
        named = (replace(shard, file=last) for shard, last in zip(shards, names, strict=True))
        splits.append(Split(sum(part.probes for part in parts), tuple(named)))
    return _join_hashes([each.fingerprint for each in written], 16), splits[0], splits[1]


def _join_hashes(hashes: Sequence[str], digest_size: int) -> str:
    if len(hashes) == 1:
        return hashes[0]
    return hashlib.blake2b("".join(hashes).encode(), digest_size=digest_size).hexdigest()
