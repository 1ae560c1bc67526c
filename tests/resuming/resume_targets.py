"""Loaders that continue from a state: exactly, or not quite."""

import os
from collections.abc import Iterator, Mapping
from typing import Any

import grain
import numpy as np

BATCHES = 12


class Batches(Iterator[dict[str, np.ndarray]]):
    """Batches with a number each, which continue exactly."""

    def __init__(self, numbers: list[int] | None = None) -> None:
        self.numbers = list(range(BATCHES)) if numbers is None else numbers
        self.position = 0

    def __next__(self) -> dict[str, np.ndarray]:
        if self.position >= len(self.numbers):
            raise StopIteration
        self.position += 1
        return {"numbers": np.full(3, self.numbers[self.position - 1])}

    def get_state(self) -> dict[str, int]:
        """Return the position."""
        return {"position": self.position}

    def set_state(self, state: Mapping[str, int]) -> None:
        """Go to a position."""
        self.position = state["position"]


class Skipping(Batches):
    """Skips a batch after a restore."""

    def set_state(self, state: Mapping[str, int]) -> None:
        """Go one batch too far."""
        self.position = state["position"] + 1


class Repeating(Batches):
    """Gives the last batch again after a restore."""

    def set_state(self, state: Mapping[str, int]) -> None:
        """Go one batch back."""
        self.position = max(0, state["position"] - 1)


class Reordering(Batches):
    """Gives the rest in reverse order after a restore."""

    def set_state(self, state: Mapping[str, int]) -> None:
        """Reverse the rest."""
        super().set_state(state)
        self.numbers[self.position :] = reversed(self.numbers[self.position :])


class Altering(Batches):
    """Gives other batches after a restore."""

    def set_state(self, state: Mapping[str, int]) -> None:
        """Change the last batch."""
        super().set_state(state)
        self.numbers[-1] = 1000


class EndingEarly(Batches):
    """Drops the last batch after a restore."""

    def set_state(self, state: Mapping[str, int]) -> None:
        """Forget the last batch."""
        super().set_state(state)
        self.numbers.pop()


class EndingLate(Batches):
    """Gives one more batch after a restore."""

    def set_state(self, state: Mapping[str, int]) -> None:
        """Add a batch."""
        super().set_state(state)
        self.numbers.append(BATCHES)


class Refusing(Batches):
    """Refuses its own state."""

    def set_state(self, _: Mapping[str, int]) -> None:
        """Fail."""
        raise ValueError("this state is of another loader")


class SpentBySaving(Batches):
    """Loses a batch each time a state is saved."""

    def get_state(self) -> dict[str, int]:
        """Advance, and return the position."""
        self.position += 1
        return super().get_state()


class Stateful:
    """A loader with the methods of torchdata's, which restores before its iterator is made."""

    def __init__(self) -> None:
        self.given = 0
        self.has_started = False

    def __iter__(self) -> Iterator[dict[str, np.ndarray]]:
        self.has_started = True
        while self.given < BATCHES:
            self.given += 1
            yield {"numbers": np.full(3, self.given)}

    def state_dict(self) -> dict[str, int]:
        """Return the position."""
        return {"given": self.given}

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        """Go to a position."""
        assert not self.has_started
        self.given = state["given"]


def without_state() -> Iterator[int]:
    """Yield numbers, without any state."""
    yield from range(BATCHES)


def constant() -> Batches:
    """Return a loader whose batches are all equal, and which does not end soon."""
    return Batches([7] * 1000)


def empty() -> Batches:
    """Return a loader without batches."""
    return Batches([])


def endless() -> Batches:
    """Return a loader that does not end soon."""
    return Batches(list(range(1000)))


def hash_seeded() -> Batches:
    """Return a loader in an order that depends on PYTHONHASHSEED."""
    return Batches([int(word) for word in {str(number) for number in range(BATCHES)}])


def ordered_by_workers(workers: int = 0) -> Batches:
    """Return a loader in whose batches two or more workers take turns."""
    ways = max(1, workers)
    return Batches([number for way in range(ways) for number in range(way, BATCHES, ways)])


def same_for_workers(workers: int = 0) -> Batches:
    """Return a loader in an order that does not depend on its workers."""
    assert workers in {0, 1, 2, 4}
    return Batches()


def one_process_each() -> Batches:
    """Return a loader that names its process in a file: each run must have a process of its own."""
    with open(os.environ["PROCESSES"], "a") as file:  # noqa: PTH123  # one line for each process
        file.write(f"{os.getpid()}\n")
    return Batches()


def _elements() -> Any:
    return grain.MapDataset.range(40).shuffle(seed=1).map(lambda number: np.int64(number))


def map_dataset() -> Any:
    """Return Grain's random-access data."""
    return _elements().batch(4)


def iter_dataset() -> Any:
    """Return a stream of Grain's, with a shuffle of its own."""
    dataset = _elements().to_iter_dataset()
    return grain.experimental.WindowShuffleIterDataset(dataset, window_size=8, seed=2).batch(4)


def data_loader() -> Any:
    """Return Grain's DataLoader, whose states are bytes."""
    sampler = grain.samplers.IndexSampler(40, num_epochs=1, shuffle=True, seed=3)
    return grain.DataLoader(
        data_source=range(40), sampler=sampler, operations=[grain.transforms.Batch(4)]
    )
