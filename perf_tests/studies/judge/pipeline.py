"""The pipeline that the study changes: compressed pictures in shards, decoded and augmented."""

import zlib
from collections.abc import Iterator
from typing import Any

import grain
import numpy as np

PICTURES, BATCH, SEED = 500, 8, 7
SIZE = 64, 64, 3


class Files:
    """Compressed pictures, each with a label."""

    def __len__(self) -> int:
        return PICTURES

    def __getitem__(self, index: int) -> dict[str, Any]:
        pixels = np.random.default_rng(index).integers(32, size=SIZE, dtype=np.uint8)
        return {"picture": zlib.compress(pixels.tobytes()), "label": index % 12}


def decode(record: dict[str, Any]) -> dict[str, Any]:
    """Return the pixels of a record."""
    pixels = np.frombuffer(zlib.decompress(record["picture"]), np.uint8).reshape(SIZE)
    return {"pixels": pixels.astype(np.float32), "label": np.int32(record["label"])}


def flip(element: dict[str, Any], random: np.random.Generator) -> dict[str, Any]:
    """Flip half of the pictures."""
    pixels = element["pixels"][:, :: 1 if random.integers(2) else -1]
    return {**element, "pixels": pixels * (1 + random.integers(100))}


def is_known(element: dict[str, Any]) -> bool:
    """Return whether the label of a picture is known."""
    return bool(element["label"] < 11)


class Resumed(Iterator[Any]):
    """An iterator with states of its own."""

    skipped = 0

    def __init__(self, dataset: Any) -> None:
        self.iterator = iter(dataset)
        self.given = 0

    def __next__(self) -> Any:
        self.given += 1
        return next(self.iterator)

    def get_state(self) -> dict[str, Any]:
        """Return the number of batches so far."""
        return {"given": self.given}

    def set_state(self, state: dict[str, Any]) -> None:
        """Read the batches before the state again."""
        for _ in range(state["given"] + self.skipped):
            next(self)


def batches(shard_index: int = 0, shard_count: int = 1) -> Any:
    """Return endless batches of one shard."""
    elements = grain.MapDataset.source(Files())
    elements = elements[shard_index::shard_count]
    elements = elements.shuffle(seed=SEED)
    elements = elements.map(decode)
    elements = elements.seed(SEED).random_map(flip)
    elements = elements.repeat()
    stream = elements.to_iter_dataset(grain.ReadOptions(num_threads=1))
    stream = stream.filter(is_known)
    return stream.batch(BATCH)
