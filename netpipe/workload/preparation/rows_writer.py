"""Writes the rows of both splits as shards, and joins the shards of all tasks in one index."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from netpipe.workload.formats.addresses import Addresses
from netpipe.workload.formats.dropped import Dropped
from netpipe.workload.formats.index import Index, Split, save_index
from netpipe.workload.formats.layout import LAYOUT_VERSION, encode_row
from netpipe.workload.formats.places import Place
from netpipe.workload.formats.rows import ROW_BYTES, MeasurementArray, cut_rows
from netpipe.workload.formats.shards import ShardWriter

SPLITS = ("train", "eval")


@dataclass(frozen=True)
class WrittenRows:
    """The shards of one writer, by split, before they get their final names.

    `fingerprint` is a hash of the rows of both splits, in the order in which they were written.
    """

    fingerprint: str
    row_hashes: dict[str, str]
    splits: dict[str, Split]


class RowsWriter:
    """Writes the histories of probes as rows to files in a folder."""

    def __init__(self, folder: Path, prefix: str, files: Mapping[str, int]) -> None:
        self._writers = {
            split: ShardWriter([folder / f"{prefix}{split}-{n}" for n in range(files[split])])
            for split in SPLITS
        }
        self._fingerprint = hashlib.blake2b(digest_size=16)

    def write(self, split: str, history: MeasurementArray, addresses: Addresses) -> None:
        """Write the measurements (n,), n >= 1, of one probe, in time order."""
        for row in cut_rows(history, addresses):
            record = encode_row(row)
            self._fingerprint.update(record)
            self._writers[split].write(record, len(row))

    def close(self, probes: Mapping[str, int]) -> WrittenRows:
        """Close the files and return their shards; `probes` counts the probes written per split."""
        closed = {split: self._writers[split].close() for split in SPLITS}
        hashes = {split: row_hash for split, (row_hash, _) in closed.items()}
        splits = {split: Split(probes[split], shards) for split, (_, shards) in closed.items()}
        return WrittenRows(self._fingerprint.hexdigest(), hashes, splits)


def save_rows(
    written: Sequence[WrittenRows], work: Place, folder: Path, seed: int, eval_fraction: float,
    dropped: tuple[Dropped, ...],
) -> Index:  # fmt: skip
    """Put the files of all writers from `work` into a folder, and save and return their index.

    The name of a file contains a hash of the rows, so that other rows do not replace it.
    """
    splits = {}
    for name in SPLITS:
        parts = [each.splits[name] for each in written]
        shards = [shard for part in parts for shard in part.shards]
        rows = _join_hashes([each.row_hashes[name] for each in written], 8)
        named = []
        for number, shard in enumerate(shards):
            last = f"{name}-{number:05d}-of-{len(shards):05d}-{rows}.arrayrecord"
            (work / shard.file).get(folder / last)
            named.append(replace(shard, file=last))
        splits[name] = Split(sum(part.probes for part in parts), tuple(named))
    index = Index(
        layout_version=LAYOUT_VERSION,
        seed=seed,
        eval_fraction=eval_fraction,
        row_bytes=ROW_BYTES,
        fingerprint=_join_hashes([each.fingerprint for each in written], 16),
        dropped=dropped,
        train=splits["train"],
        eval=splits["eval"],
    )
    save_index(index, folder)
    return index


def _join_hashes(hashes: Sequence[str], digest_size: int) -> str:
    if len(hashes) == 1:
        return hashes[0]
    return hashlib.blake2b("".join(hashes).encode(), digest_size=digest_size).hexdigest()
