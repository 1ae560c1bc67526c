"""Grain's DataLoader with a sampler and operations."""

import grain

from tests.zoo.images import COUNT, Image, augment
from tests.zoo.pipelines.grain_tutorial import Images


class Augment(grain.transforms.Map):  # type: ignore[misc]
    """The transform as an operation."""

    def map(self, element: Image) -> Image:
        """Return the augmented image."""
        return augment(element)


def loader(workers: int = 1) -> grain.DataLoader:
    """Return a loader over endless epochs."""
    sampler = grain.samplers.IndexSampler(num_records=COUNT, shuffle=True, seed=42)
    return grain.DataLoader(
        data_source=Images(),
        sampler=sampler,
        operations=[Augment(), grain.transforms.Batch(batch_size=32, drop_remainder=True)],
        worker_count=workers,
    )
