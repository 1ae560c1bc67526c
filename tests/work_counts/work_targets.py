"""Loaders and steps whose work is counted, here and in child processes."""

import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import grain
import jax
import jax.numpy as jnp
import numpy as np
from array_record.python.array_record_module import ArrayRecordWriter

ALONE = grain.ReadOptions(num_threads=0, prefetch_buffer_size=0)
ROWS = 8
LENGTH = 1024
WORKERS = grain.MultiprocessingOptions(num_workers=1, per_worker_buffer_size=1)

Rows = grain.MapDataset


def double(row: np.ndarray) -> np.ndarray:
    """Return twice a row."""
    return 2 * row


def log_and_double(row: np.ndarray) -> np.ndarray:
    """Make one more Python call for each row."""
    return double(row)


def stack(rows: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
    """Return a batch of rows, the last quarter of each of which is padding."""
    tokens = np.stack(rows)
    tokens[:, -LENGTH // 4 :] = 0
    return {"tokens": tokens, "lengths": np.full(ROWS, LENGTH, np.int64)}


def copy_batch(batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return a copy of a batch."""
    return {name: np.array(array) for name, array in batch.items()}


def widen(batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return a batch with a wider dtype."""
    return {**batch, "tokens": batch["tokens"].astype(np.int64)}


def rows() -> Any:
    """Return 1024 rows of ones."""
    return grain.MapDataset.range(1024).map(lambda _: np.ones(LENGTH, np.int32))


def loader() -> Any:
    """Return a loader whose rows and batches are made in this process."""
    return rows().map(double).batch(ROWS, batch_fn=stack).to_iter_dataset(ALONE)


def calling_loader() -> Any:
    """Return the loader with one more call for each row."""
    return rows().map(log_and_double).batch(ROWS, batch_fn=stack).to_iter_dataset(ALONE)


def copying_loader() -> Any:
    """Return the loader with one more copy of each batch."""
    return loader().map(copy_batch)


def wide_loader() -> Any:
    """Return the loader with a wider dtype."""
    return loader().map(widen)


def loader_with_workers() -> Any:
    """Return the loader with a worker that sends whole batches."""
    return loader().mp_prefetch(WORKERS)


def loader_widened_behind_workers() -> Any:
    """Return the loader whose worker sends narrow batches."""
    return loader().mp_prefetch(WORKERS).map(widen)


def loader_of_one_epoch() -> Any:
    """Return a loader that ends after three batches."""
    return rows().slice(slice(0, 3 * ROWS)).batch(ROWS, batch_fn=stack).to_iter_dataset(ALONE)


def list_of_batches() -> list[np.ndarray]:
    """Return eight batches that cost nothing."""
    return [np.ones(LENGTH, np.int32)] * 8


def plain_loader() -> Iterator[dict[str, np.ndarray]]:
    """Yield batches from a loader that is not Grain's."""
    while True:
        yield stack([double(np.ones(LENGTH, np.int32)) for _ in range(ROWS)])


def unpredictable_loader() -> Iterator[dict[str, np.ndarray]]:
    """Yield batches, and call `list.append` as often as a hash with a random seed says."""
    kept: list[int] = []
    while True:
        for _ in range(hash("netpipe") % 97):
            kept.append(1)  # noqa: PERF401  # each append is a call
        yield stack([double(np.ones(LENGTH, np.int32)) for _ in range(ROWS)])


def write_shards(folder: Path, *lengths: int) -> None:
    """Write equal rows of 256 kB, larger than a read-ahead, into ArrayRecord files."""
    row = np.arange(2**16, dtype=np.int32).tobytes()
    for number, length in enumerate(lengths):
        writer = ArrayRecordWriter(
            str(folder / f"{number}.array_record"), "group_size:1,uncompressed"
        )
        for _ in range(length):
            writer.write(row)
        writer.close()


class Decode(grain.transforms.Map):  # type: ignore[misc]  # no types
    """Make an array of a record."""

    def map(self, record: bytes) -> np.ndarray:
        """Return the row of a record."""
        return np.frombuffer(record, np.int32)


def loader_of_shards(folder: Path) -> Any:
    """Return batches of two rows of ArrayRecord files, which are opened one after the other."""
    source = grain.sources.ArrayRecordDataSource(sorted(map(str, folder.iterdir())))
    sampler = grain.samplers.SequentialSampler(len(source), grain.sharding.NoSharding())
    operations = [Decode(), grain.transforms.Batch(2)]
    return grain.DataLoader(data_source=source, sampler=sampler, operations=operations)


def failing_loader() -> Iterator[Any]:
    """Yield one batch, then fail."""
    yield stack([np.ones(LENGTH, np.int32)] * ROWS)
    raise OSError("the disk is gone")


def step() -> tuple[Any, Any]:
    """Return a state of 4 MB, and a step that donates it."""

    def advance(state: jax.Array, batch: dict[str, Any]) -> tuple[jax.Array, jax.Array]:
        return state + 1.0, jnp.sum(state) + jnp.sum(batch["tokens"])

    return jnp.zeros((1024, 1024)), jax.jit(advance, donate_argnums=0)


def keeping_step() -> tuple[Any, Any]:
    """Return the same state, and a step that does not donate it."""
    state, advance = step()
    return state, jax.jit(advance.__wrapped__)


def impure_step() -> tuple[Any, Any]:
    """Return a step that reads its loss, so XLA cannot analyse it as a whole."""
    state, advance = step()

    def read(state: jax.Array, batch: dict[str, Any]) -> tuple[jax.Array, jax.Array]:
        state, loss = advance(state, batch)
        float(loss)
        return state, loss

    return state, read


step.flops_per_step = 12e9  # type: ignore[attr-defined]


def list_made_by_two() -> list[dict[str, np.ndarray]]:
    """Return batches once two processes with different hash seeds are running."""
    folder = Path(os.environ["MEETING_PLACE"])
    (folder / os.environ["PYTHONHASHSEED"]).touch()
    ends_s = time.monotonic() + 60
    while len(list(folder.iterdir())) < 2:
        assert time.monotonic() < ends_s, "the other process does not come"
        time.sleep(0.01)
    return [{"tokens": np.zeros((ROWS, LENGTH), np.int32)}] * 8
