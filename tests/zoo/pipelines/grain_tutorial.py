"""Grain's tutorial: a source, a shuffle, a map, a batch, and worker processes."""

import grain

from tests.zoo.images import COUNT, Image, augment, make_image


class Images(grain.sources.RandomAccessDataSource):  # type: ignore[misc]
    """Random images."""

    def __len__(self) -> int:
        return COUNT

    def __getitem__(self, number: int) -> Image:
        return make_image(number)


def loader(workers: int = 1) -> grain.IterDataset:
    """Return the tutorial's dataset over endless epochs."""
    dataset = (
        grain.MapDataset.source(Images())
        .seed(42)
        .shuffle()
        .map(augment)
        .repeat()
        .batch(batch_size=32, drop_remainder=True)
        .to_iter_dataset()
    )
    options = grain.MultiprocessingOptions(num_workers=workers)
    return dataset.mp_prefetch(options) if workers else dataset
