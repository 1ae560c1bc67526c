"""A table for a recommender: row groups of a parquet file, read with pyarrow, normalised, batched.

The first call writes a table of sensor readings and keeps it in a cache folder.
"""

import os
from pathlib import Path

import grain
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"), "netpipe-examples")
ROW_GROUPS = 96
ROWS = 1_024  # in a row group
COLUMNS = 48
GROUPS_PER_BATCH = 2
SEED = 7


def make_row_group(rng: np.random.Generator) -> pa.Table:
    """Make every column a random walk with a few missing values."""
    values = rng.normal(scale=0.1, size=(COLUMNS, ROWS)).cumsum(axis=1).round(3)
    missing = rng.random((COLUMNS, ROWS)) < 0.02
    names = [f"sensor_{number:03}" for number in range(COLUMNS)]
    columns = [pa.array(one, mask=gaps) for one, gaps in zip(values, missing, strict=True)]
    return pa.table([*columns, pa.array(rng.integers(0, 2, ROWS))], [*names, "label"])


def make_table(path: Path) -> None:
    """Write all row groups to a parquet file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(SEED)
    unfinished = path.with_name(f"{path.name}.{os.getpid()}.part")
    first = make_row_group(rng)
    with pq.ParquetWriter(unfinished, first.schema, compression="zstd") as writer:
        writer.write_table(first)
        for _ in range(ROW_GROUPS - 1):
            writer.write_table(make_row_group(rng))
    unfinished.replace(path)


class RowGroups:
    """The row groups of a parquet file, as a Grain source."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __len__(self) -> int:
        return pq.ParquetFile(self.path).num_row_groups

    def __getitem__(self, index: int) -> pa.Table:
        return pq.ParquetFile(self.path).read_row_group(index)


def to_numpy(table: pa.Table) -> dict[str, np.ndarray]:
    """Turn columns into one matrix: features float64 (ROWS, COLUMNS), label int64 (ROWS,)."""
    features = [table.column(name).to_numpy() for name in table.column_names[:-1]]
    return {"features": np.stack(features, axis=1), "label": table.column("label").to_numpy()}


def normalise(rows: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Fill missing values, and scale each column to a mean of 0 and a deviation of 1."""
    features = rows["features"]
    mean, deviation = np.nanmean(features, axis=0), np.nanstd(features, axis=0)
    scaled = (np.where(np.isnan(features), mean, features) - mean) / (deviation + 1e-6)
    return {**rows, "features": scaled.astype(np.float32)}


def concatenate(groups: list[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """Join row groups into a batch."""
    return {name: np.concatenate([group[name] for group in groups]) for name in groups[0]}


def row_groups() -> grain.MapDataset:
    """Return endless normalised row groups."""
    path = CACHE / f"table-{ROW_GROUPS}.parquet"
    if not path.exists():
        make_table(path)
    return (
        grain.MapDataset.source(RowGroups(path)).shuffle(SEED).repeat().map(to_numpy).map(normalise)
    )


def loader() -> grain.IterDataset:
    """Return batches: features float32 (2 ROWS, COLUMNS), label int64 (2 ROWS,)."""
    return (
        row_groups()
        .batch(GROUPS_PER_BATCH, batch_fn=concatenate)
        .to_iter_dataset(grain.ReadOptions(num_threads=0, prefetch_buffer_size=0))
    )
