"""Hugging Face datasets, map-style: `set_transform`, and a torch DataLoader, as its guide says."""

from typing import Any

from datasets import Dataset
from torch.utils.data import DataLoader

from tests.zoo.images import COUNT, augment, make_image


def transform(rows: dict[str, list[Any]]) -> dict[str, list[Any]]:
    """Augment the images of some rows."""
    return {"image": [augment(image) for image in rows["image"]]}


def loader(workers: int = 1) -> DataLoader[Any]:
    """Return a loader of one shuffled epoch."""
    images = [make_image(number).ravel() for number in range(COUNT)]
    dataset = Dataset.from_dict({"image": images}).with_transform(transform)
    return DataLoader(
        dataset,
        batch_size=32, shuffle=True, drop_last=True, num_workers=workers,
    )  # fmt: skip
