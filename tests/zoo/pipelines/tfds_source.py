"""TensorFlow Datasets as a random-access source of a Grain pipeline, without tf.data."""

import sys
import tempfile
from collections.abc import Iterator
from contextlib import redirect_stdout
from typing import Any

import grain
import numpy as np
import tensorflow_datasets as tfds

from tests.zoo.images import COUNT, SHAPE, augment, make_image


class ZooImages(tfds.core.GeneratorBasedBuilder):  # type: ignore[misc]
    """Random images, made on the spot."""

    VERSION = tfds.core.Version("1.0.0")

    def _info(self) -> Any:
        image = tfds.features.Tensor(shape=SHAPE, dtype=np.float32)
        features = tfds.features.FeaturesDict({"image": image})
        return tfds.core.DatasetInfo(builder=self, features=features)

    def _split_generators(self, _: Any) -> dict[str, Any]:
        return {"train": self._generate_examples()}

    def _generate_examples(self) -> Iterator[tuple[int, dict[str, Any]]]:
        for number in range(COUNT):
            yield number, {"image": make_image(number)}


def transform(features: dict[str, Any]) -> dict[str, Any]:
    """Augment the image."""
    return {"image": augment(features["image"])}


def loader(workers: int = 1) -> grain.IterDataset:
    """Return shuffled batches without end."""
    folder = f"{tempfile.gettempdir()}/netpipe-zoo-tfds"
    builder = ZooImages(data_dir=folder, file_format="array_record")
    with redirect_stdout(sys.stderr):
        builder.download_and_prepare()
    source = builder.as_data_source(split="train")
    dataset = grain.MapDataset.source(source).seed(42).shuffle().map(transform)
    batches = dataset.repeat().batch(32, drop_remainder=True).to_iter_dataset()
    options = grain.MultiprocessingOptions(num_workers=workers)
    return batches.mp_prefetch(options) if workers else batches
