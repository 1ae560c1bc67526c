"""Inherited ArrayRecord files, of layout 0 -> a folder of the newest layout."""

import hashlib
from pathlib import Path

from netpipe.data.formats.index import Index, Split, save_index
from netpipe.data.formats.layout import LAYOUT_VERSION, encode_row
from netpipe.data.formats.layout_v0 import decode_history_v0
from netpipe.data.formats.rows import ROW_BYTES, cut_rows
from netpipe.data.formats.shards import ShardWriter
from netpipe.data.preparation.output_folder import whole_folder
from netpipe.data.preparation.prepare import Progress
from netpipe.data.preparation.split import EVAL_FRACTION
from netpipe.data.sources.unindexed_source import UnindexedSource, find_array_records
from netpipe.errors import InputError


def is_inherited(folder: Path) -> bool:
    """Whether a folder has ArrayRecord files to convert, and no measurements to prepare anew."""
    return bool(find_array_records(folder)) and not any(folder.rglob("*.parquet"))


def convert(
    folder: Path,
    out: Path,
    *,
    seed: int = 0,
    row_bytes: int = ROW_BYTES,
    progress: Progress | None = None,
) -> Index:
    """Rewrite inherited rows; one whose arrays take more than `row_bytes` is cut.

    Rows keep their order, in one file for each split: where none is cut, the same seed draws the
    same contexts from the converted rows as from the inherited ones.

    Args:
        folder: Holds `*.arrayrecord` files, or folders of them.
        out: The folder to make. One that was prepared before is replaced once the new one is whole.
        seed: Chooses which probes evaluate, unless the files' names state it; at least 0.
        row_bytes: The most that a row's arrays take.
        progress: Is told how many measurements are done, of how many.

    Returns:
        The index, as it was written.

    Raises:
        InputError: The seed, a record, a value in it, or `out` is not what it must be. Nothing is
            then left behind, and a folder prepared before is as it was.
    """
    if seed < 0:
        raise InputError("prepare", "seed", "be at least 0", seed)
    sources = {split: UnindexedSource(folder, split, seed=seed) for split in ("train", "eval")}
    total = sum(int(source.row_measurements.sum()) for source in sources.values())
    fingerprint = hashlib.blake2b(digest_size=16)
    done = 0
    with whole_folder(out, find_array_records(folder)) as building:
        splits = {}
        for split, source in sources.items():
            writer = ShardWriter(building, split, shards=1)
            for record, where in source.records():
                history, addresses = decode_history_v0(record, where)
                for row in cut_rows(history, addresses, row_bytes):
                    encoded = encode_row(row)
                    fingerprint.update(encoded)
                    writer.write(encoded, len(row))
                done += len(history)
                if progress:
                    progress(done, total)
            splits[split] = Split(source.probes, writer.close())
        index = Index(
            layout_version=LAYOUT_VERSION,
            seed=seed,
            eval_fraction=EVAL_FRACTION,
            row_bytes=row_bytes,
            fingerprint=fingerprint.hexdigest(),
            **splits,
        )
        save_index(index, building)
    return index
