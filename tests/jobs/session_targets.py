"""Loaders and steps that the tests' sessions have as targets."""

import threading
from collections.abc import Iterator
from itertools import count
from typing import Any

import numpy as np

Batch = dict[str, np.ndarray[Any, Any]]


def tiny_loader() -> Iterator[Batch]:
    """Give small batches forever."""
    while True:
        yield {"x": np.zeros((2, 3), np.int32)}


def wide_loader() -> Iterator[Batch]:
    """Give batches like `tiny_loader` of another dtype."""
    while True:
        yield {"x": np.zeros((2, 3), np.int64)}


def counting_loader() -> Iterator[Batch]:
    """Give batches like `tiny_loader` whose contents differ from the second batch on."""
    for number in count():
        yield {"x": np.full((2, 3), number, np.int32)}


def chosen_loader(workers: int = 2) -> Iterator[Batch]:
    """Give batches with a row for each worker."""
    while True:
        yield {"x": np.zeros((workers, 3), np.int32)}


def failing_loader() -> Iterator[Batch]:
    """Give two batches, then fail."""
    yield from finite_loader()
    raise OSError("disk gone")


def finite_loader() -> list[Batch]:
    """Give two batches and end."""
    return [{"x": np.zeros((2, 3), np.int32)}] * 2


def hanging_loader() -> Iterator[Batch]:
    """Give two batches, then hang forever."""
    yield from finite_loader()
    threading.Event().wait()


def no_loader() -> int:
    """Return an object that holds no batches."""
    return 3


def bad_step() -> int:
    """Return an object that is not a step."""
    return 3
