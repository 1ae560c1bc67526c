"""`convert`: inherited ArrayRecord files of layout 0 become a folder of the newest layout."""

from pathlib import Path

from netpipe.data.formats.index import Index
from netpipe.data.formats.layout_v0 import decode_history_v0
from netpipe.data.formats.rows import ROW_BYTES
from netpipe.data.preparation.output_folder import whole_folder
from netpipe.data.preparation.prepare import Progress, RowWriter, count_progress
from netpipe.data.preparation.split import EVAL_FRACTION
from netpipe.data.sources.unindexed_source import UnindexedSource, find_array_records
from netpipe.errors import InputError


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
    """Rewrite inherited rows in the newest layout; rows above `row_bytes` are cut.

    Rows keep their order, in one file per split. If no row is cut, the same seed draws the same
    contexts from the converted rows as from the inherited ones.

    Args:
        folder: Holds `*.arrayrecord` files, or folders of them.
        out: The folder to make; a prepared folder is replaced when the new one is complete.
        seed: Chooses the eval probes, unless the file names state the split; at least 0.
        row_bytes: The largest size of a row's arrays.
        progress: Called with the measurements converted and their total.

    Returns:
        The index, as written.

    Raises:
        InputError: The seed, a record, a value in it, or `out` is invalid. `out` is then
            unchanged.
    """
    if seed < 0:
        raise InputError("prepare", "seed", "be at least 0", seed)
    sources = {split: UnindexedSource(folder, split, seed=seed) for split in ("train", "eval")}
    total = sum(int(source.row_measurements.sum()) for source in sources.values())
    advance = count_progress(progress, total)
    with whole_folder(out, find_array_records(folder)) as building:
        writer = RowWriter(building, {"train": 1, "eval": 1}, row_bytes)
        for split, source in sources.items():
            for record, where in source.records():
                history, addresses = decode_history_v0(record, where)
                writer.write(split, history, addresses)
                advance(len(history))
        return writer.close(seed=seed, eval_fraction=EVAL_FRACTION)
