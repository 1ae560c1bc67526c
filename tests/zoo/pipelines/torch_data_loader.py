"""torch's guide "Datasets & DataLoaders": a map-style dataset and a DataLoader with workers."""

from typing import Any

from torch.utils.data import DataLoader, Dataset

from tests.zoo.images import COUNT, Image, augment, make_image


class Images(Dataset[Image]):  # type: ignore[misc]
    """Random images."""

    def __len__(self) -> int:
        return COUNT

    def __getitem__(self, number: int) -> Image:
        return augment(make_image(number))


def loader(workers: int = 1) -> DataLoader[Any]:
    """Return a loader of one shuffled epoch."""
    return DataLoader(Images(), batch_size=32, shuffle=True, drop_last=True, num_workers=workers)
