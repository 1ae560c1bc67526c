"""Loaders and steps that sessions of the tests name as their targets."""

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np

Batch = dict[str, np.ndarray[Any, Any]]


def tiny_loader() -> Iterator[Batch]:
    """Give small batches for ever."""
    while True:
        yield {"x": np.zeros((2, 3), np.int32)}


def failing_loader() -> Iterator[Batch]:
    """Give two batches, then fail."""
    yield from finite_loader()
    raise OSError("disk gone")


def finite_loader() -> list[Batch]:
    """Give two batches and end."""
    return [{"x": np.zeros((2, 3), np.int32)}] * 2


def hanging_loader() -> Iterator[Batch]:
    """Give two batches, then nothing, for ever."""
    yield from finite_loader()
    threading.Event().wait()


def no_loader() -> int:
    """Give something that holds no batches."""
    return 3


def bad_step() -> int:
    """Give something that is no step."""
    return 3
