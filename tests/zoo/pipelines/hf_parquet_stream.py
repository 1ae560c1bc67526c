"""Hugging Face datasets, streamed from parquet files, with a map and a torch DataLoader."""

import tempfile
from pathlib import Path
from typing import Any

from datasets import Dataset, load_dataset
from torch.utils.data import DataLoader

from tests.zoo.images import COUNT, augment, make_image

_FILES = 4


def write_files(folder: Path) -> list[str]:
    """Write the images into parquet files, once."""
    paths = [folder / f"images-{part}.parquet" for part in range(_FILES)]
    for part, path in enumerate(paths):
        if not path.exists():
            rows = [make_image(number).ravel() for number in range(part, COUNT, _FILES)]
            Dataset.from_dict({"image": rows}).to_parquet(path)
    return list(map(str, paths))


def transform(row: dict[str, Any]) -> dict[str, Any]:
    """Augment the image of a row."""
    return {"image": augment(row["image"])}


def loader(workers: int = 1) -> DataLoader[Any]:
    """Return a loader of one epoch in the order of the files."""
    folder = Path(tempfile.gettempdir()) / "netpipe-zoo-parquet"
    folder.mkdir(exist_ok=True)
    stream = load_dataset("parquet", data_files=write_files(folder), split="train", streaming=True)
    mapped = stream.with_format("numpy").map(transform)
    return DataLoader(mapped, batch_size=32, drop_last=True, num_workers=workers)
