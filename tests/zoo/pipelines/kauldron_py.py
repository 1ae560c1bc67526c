"""kauldron's `kd.data.py.DataSource`, which builds a Grain pipeline."""

import dataclasses
from typing import Any

import grain.python as grain
from kauldron import kd

from tests.zoo.images import augment
from tests.zoo.pipelines.grain_tutorial import Images


@dataclasses.dataclass(frozen=True)
class Augment(grain.MapTransform):  # type: ignore[misc]
    """The transform in the form that kauldron's configurations use."""

    def map(self, element: Any) -> Any:
        """Return the augmented image."""
        return {"image": augment(element)}


def loader(workers: int = 1) -> Any:
    """Return the pipeline's batches."""
    return kd.data.py.DataSource(
        data_source=Images(), shuffle=True, seed=42, batch_size=32, num_workers=workers,
        transforms=[Augment()],
    )  # fmt: skip
