"""Converts folders of the inherited layout 0 to prepared folders."""

from pathlib import Path

from netpipe.workload.formats.index import Index
from netpipe.workload.formats.layout import decode_history_v0
from netpipe.workload.preparation.output_folder import whole_folder
from netpipe.workload.preparation.prepare import Progress
from netpipe.workload.preparation.rows_writer import RowsWriter, save_rows
from netpipe.workload.sources.probe_rows import UnindexedSource, find_array_records


def is_inherited(folder: Path) -> bool:
    """Return whether a folder has ArrayRecord files to convert and no parquet files."""
    return bool(find_array_records(folder)) and not any(folder.rglob("*.parquet"))


def convert(folder: Path, out: Path, *, seed: int = 0, progress: Progress | None = None) -> Index:
    """Rewrite a folder's inherited rows in the newest layout, in one file per split.

    Rows keep their order, and rows larger than `ROW_BYTES` are cut. If none is cut, the same seed
    draws the same contexts as from the inherited rows. Errors are the same as for `prepare`.
    """
    sources = {split: UnindexedSource(folder, split, seed=seed) for split in ("train", "eval")}
    total = sum(int(source.row_measurements.sum()) for source in sources.values())
    done = 0
    with whole_folder(out, find_array_records(folder)) as building:
        writer = RowsWriter(building, ".", {"train": 1, "eval": 1})
        probes: dict[str, set[int]] = {split: set() for split in sources}
        for split, source in sources.items():
            for record, where in source.records():
                history, addresses = decode_history_v0(record, where)
                writer.write(split, history, addresses)
                probes[split].add(int(history["probe"][0]))
                done += len(history)
                if progress:
                    progress(done, total, "converting")
        written = writer.close({split: len(found) for split, found in probes.items()})
        return save_rows(
            [written], building, lambda name, last: (building / name).rename(building / last), seed
        )
