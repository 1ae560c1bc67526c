"""Loaders and a step that the sides of the tests' duets name as their targets."""

import time
from collections.abc import Iterator
from resource import RUSAGE_SELF, getrusage
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

Batch = dict[str, np.ndarray[Any, Any]]
_FIRST_MAPPED = 4  # batches, in which the memory is mapped for the first time


def quick() -> Iterator[Batch]:
    """Wait 2 ms for every batch."""
    return _waiting(0.002)


def slow() -> Iterator[Batch]:
    """Wait 40 ms for every batch."""
    return _waiting(0.04)


def very_slow() -> Iterator[Batch]:
    """Wait 100 ms for every batch."""
    return _waiting(0.1)


def _waiting(wait_s: float) -> Iterator[Batch]:
    while True:
        time.sleep(wait_s)
        yield {"x": np.zeros((2, 3), np.int32)}


def short_epochs() -> list[Batch]:
    """Give two batches and end."""
    return [{"x": np.zeros((2, 3), np.int32)}] * 2


def one_batch() -> list[Batch]:
    """Give one batch and end."""
    return short_epochs()[:1]


def slow_start() -> Iterator[Batch]:
    """Wait 100 ms before the first of eight batches, and 1 ms before the others."""
    time.sleep(0.1)
    for _ in range(8):
        time.sleep(0.001)
        yield {"x": np.zeros((2, 3), np.int32)}


def freeing() -> Iterator[Batch]:
    """Free 24 MB after every batch; fail if the pages must be mapped again for later batches."""
    faults = list[int]()
    for batch in quick():
        freed = [b"x" * (8 << 20) for _ in range(3)]
        del freed
        faults.append(getrusage(RUSAGE_SELF).ru_minflt)
        if len(faults) > _FIRST_MAPPED and faults[-1] - faults[_FIRST_MAPPED] > len(faults) * 500:
            raise RuntimeError(f"page faults so far: {faults}")
        yield batch


def growing() -> Iterator[Batch]:
    """Start later than `quick`, with more memory, and keep a megabyte with every batch."""
    time.sleep(1.0)
    kept = [np.ones(4_000_000)]
    for batch in quick():
        kept.append(np.ones(125_000))
        yield batch


def failing() -> Iterator[Batch]:
    """Give two batches, then fail."""
    yield from short_epochs()
    raise OSError("disk gone")


def step() -> Any:
    """Give a small state and step."""
    return jnp.zeros(()), jax.jit(lambda state, batch: (state + batch["x"].sum(), {"loss": state}))
