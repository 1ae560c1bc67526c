"""Loaders that continue from a state: exactly, or not quite."""

import os
import queue
import threading
import time
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


class ForgettingItsShard(Batches):
    """Gives the batches of all hosts after a restore."""

    def __init__(self, shard_index: int = 0, shard_count: int = 1) -> None:
        super().__init__(list(range(2 * BATCHES))[shard_index::shard_count])

    def set_state(self, state: Mapping[str, int]) -> None:
        """Go to a position among the batches of all hosts."""
        self.numbers = list(range(2 * BATCHES))
        super().set_state(state)


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


class WrongAfterRestores(Batches):
    """Skips a batch when its state was saved after `right` restores."""

    right = 0

    def __init__(self) -> None:
        super().__init__()
        self.restores = 0

    def get_state(self) -> dict[str, int]:
        """Return the position, and the number of restores before it."""
        return super().get_state() | {"restores": self.restores}

    def set_state(self, state: Mapping[str, int]) -> None:
        """Go one batch too far after too many restores."""
        self.restores = state["restores"] + 1
        self.position = state["position"] + (self.restores > self.right)


class CountingSinceRestore(Batches):
    """Saves the number of batches since its last restore."""

    began = 0

    def get_state(self) -> dict[str, int]:
        """Return a number that is a position only without an earlier restore."""
        return {"position": self.position - self.began}

    def set_state(self, state: Mapping[str, int]) -> None:
        """Go to a position, and count from there."""
        super().set_state(state)
        self.began = self.position


class CountingSinceSave(Batches):
    """Saves the number of batches since its last state."""

    saved = 0

    def get_state(self) -> dict[str, int]:
        """Return a number that is a position only for the first state."""
        since, self.saved = self.position - self.saved, self.position
        return {"position": since}


class ForgettingAtOnce(Batches):
    """Has no position between a restore and the next batch."""

    is_restored = False

    def __next__(self) -> dict[str, np.ndarray]:
        self.is_restored = False
        return super().__next__()

    def get_state(self) -> dict[str, int]:
        """Return the position, or 0 right after a restore."""
        return {"position": 0 if self.is_restored else self.position}

    def set_state(self, state: Mapping[str, int]) -> None:
        """Go to a position."""
        super().set_state(state)
        self.is_restored = True


class Rounding(Batches):
    """Saves the beginning of its chunk of batches, but exact positions in the first chunk."""

    chunk = 8

    def get_state(self) -> dict[str, int]:
        """Return a position that is too low in most chunks."""
        is_exact = self.position < self.chunk
        return {"position": self.position if is_exact else self.position // self.chunk * self.chunk}


class Producing(Batches):
    """Saves the position of its producer, which needs 20 ms to be two batches ahead."""

    FILL_S = 0.02

    def __init__(self) -> None:
        super().__init__()
        self.asked_s = time.monotonic()

    def __next__(self) -> dict[str, np.ndarray]:
        self.asked_s = time.monotonic()
        return super().__next__()

    def count_ahead(self) -> int:
        """Return how many batches the producer is ahead."""
        return 2 * (time.monotonic() - self.asked_s >= self.FILL_S)

    def get_state(self) -> dict[str, int]:
        """Return the producer's position."""
        return {"position": self.position + self.count_ahead()}


class KeepingBuffers(Producing):
    """Gives what its producer has made before a restore, then goes on from there."""

    def get_state(self) -> dict[str, int]:
        """Return the position."""
        return {"position": self.position}

    def set_state(self, state: Mapping[str, int]) -> None:
        """Go to a position, behind the batches of the buffer."""
        buffered = range(self.count_ahead())
        self.numbers[state["position"] : state["position"]] = buffered
        super().set_state(state)


class Live(Batches):
    """Returns the dict that it keeps its position in."""

    def __init__(self) -> None:
        super().__init__()
        self.state = {"source": {"position": 0}}

    def __next__(self) -> dict[str, np.ndarray]:
        self.state["source"]["position"] += 1
        return super().__next__()

    def get_state(self) -> dict[str, Any]:
        """Return a dict in which the next batch changes the position."""
        return self.state

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Go to a position."""
        self.position = self.state["source"]["position"] = state["source"]["position"]


class LiveLater(Live):
    """Returns a copy of its position, but after a restore the dict itself."""

    is_restored = False

    def get_state(self) -> dict[str, Any]:
        """Return a dict in which the next batch may change the position."""
        return self.state if self.is_restored else {"source": dict(self.state["source"])}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Go to a position."""
        super().set_state(state)
        self.is_restored = True


class Renewing(Batches):
    """Has settings in its state, and turns their order round for each batch."""

    def __init__(self) -> None:
        super().__init__()
        self.settings = {"seed": 1, "shards": 2}

    def __next__(self) -> dict[str, np.ndarray]:
        first = next(iter(self.settings))
        self.settings[first] = self.settings.pop(first)
        return super().__next__()

    def get_state(self) -> dict[str, Any]:
        """Return the position and the settings."""
        return {"position": self.position, "settings": self.settings}


class Unpicklable(Batches):
    """Has a generator in its state."""

    def get_state(self) -> dict[str, Any]:
        """Return a state that cannot leave the process."""
        return {"rest": (number for number in self.numbers)}


class UnpicklableLater(Batches):
    """Has a generator in the states of a restored loader."""

    is_restored = False

    def get_state(self) -> dict[str, Any]:
        """Return a position, or a generator."""
        rest = (number for number in self.numbers)
        return {"position": rest if self.is_restored else self.position}

    def set_state(self, state: Mapping[str, int]) -> None:
        """Go to a position."""
        super().set_state(state)
        self.is_restored = True


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


def derive(base: type[Batches], **attributes: int) -> type[Batches]:
    """Return a class of loaders with other attributes, such as `chunk`."""
    return type(base.__name__, (base,), attributes)


class Buffering:
    """A loader whose thread reads ahead, and whose state is that of the last batch given."""

    def __init__(self) -> None:
        self.given = 0

    def __iter__(self) -> Iterator[dict[str, np.ndarray]]:
        ahead = queue.Queue[int](4)
        threading.Thread(target=self._read, args=[ahead, self.given], daemon=True).start()
        for number in iter(ahead.get, BATCHES):
            self.given += 1
            yield {"numbers": np.full(3, number)}

    def _read(self, ahead: queue.Queue[int], position: int) -> None:
        for number in range(position, BATCHES + 1):
            ahead.put(number)

    def state_dict(self) -> dict[str, int]:
        """Return the position of the one who takes the batches."""
        return {"given": self.given}

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        """Go to a position."""
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


def one_shard(shard_index: int = 0, shard_count: int = 1) -> Batches:
    """Return all batches for the first shard, and none for another one."""
    return Batches(list(range(BATCHES)) if shard_index % shard_count == 0 else [])


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


class DamagedByOne(Batches):
    """Saves a wrong position after it was restored with one worker."""

    def __init__(self, workers: int) -> None:
        super().__init__()
        self.workers, self.is_damaged = workers, False

    def get_state(self) -> dict[str, int]:
        """Return the position, or the next one."""
        return {"position": self.position + self.is_damaged}

    def set_state(self, state: Mapping[str, int]) -> None:
        """Go to a position, or to the next one with one worker."""
        self.is_damaged = self.workers == 1
        self.position = state["position"] + self.is_damaged


def damaged_by_one(workers: int = 0) -> DamagedByOne:
    """Return a loader that one worker cannot restore."""
    return DamagedByOne(workers)


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


def reader_threads() -> Any:
    """Return a stream of Grain's with buffers of elements and of batches."""
    options = grain.ReadOptions(num_threads=2, prefetch_buffer_size=8)
    batches = _elements().to_iter_dataset(options).batch(4)
    return grain.experimental.ThreadPrefetchIterDataset(batches, prefetch_buffer_size=3)


def data_loader() -> Any:
    """Return Grain's DataLoader, whose states are bytes."""
    sampler = grain.samplers.IndexSampler(40, num_epochs=1, shuffle=True, seed=3)
    return grain.DataLoader(
        data_source=range(40), sampler=sampler, operations=[grain.transforms.Batch(4)]
    )
