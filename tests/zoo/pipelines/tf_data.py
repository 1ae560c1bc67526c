"""tf.data: a range, a shuffle, a parallel map of Python code, a batch and a prefetch."""

from collections.abc import Iterator

import tensorflow as tf

from tests.zoo.images import COUNT, SHAPE, Image, augment, make_image


def load(number: int) -> Image:
    """Return an image, augmented."""
    return augment(make_image(number))


def loader() -> Iterator[Image]:
    """Return the batches of one shuffled epoch; tf.data has threads, no worker processes."""

    def load_tensor(number: tf.Tensor) -> tf.Tensor:
        image = tf.numpy_function(load, [number], tf.float32)
        image.set_shape(SHAPE)
        return image

    dataset = tf.data.Dataset.range(COUNT).shuffle(COUNT, seed=0)
    mapped = dataset.map(load_tensor, num_parallel_calls=2)
    return iter(mapped.batch(32, drop_remainder=True).prefetch(2).as_numpy_iterator())
