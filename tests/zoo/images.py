"""Generated data, and a transform that takes most of a pipeline's time."""

import time
from typing import Any

import numpy as np
from absl import flags

flags.FLAGS.mark_as_parsed()  # Grain's workers need them
COUNT = 2048
SHAPE = (32, 32, 3)

Image = np.ndarray[Any, np.dtype[np.float32]]


def make_image(number: int) -> Image:
    """Return the same random image for the same number."""
    return np.random.default_rng(number).random(SHAPE, np.float32)


class Augmenting:
    """CPU seconds that this process has spent in `augment`."""

    cpu_s = 0.0


def augment(image: Image) -> Image:
    """Return an image after one or two milliseconds of arithmetic."""
    started_s = time.thread_time()
    image = np.asarray(image, np.float32).reshape(SHAPE)
    for _ in range(200):
        image = np.sin(image) + np.float32(0.1)
    Augmenting.cpu_s += time.thread_time() - started_s
    return image
