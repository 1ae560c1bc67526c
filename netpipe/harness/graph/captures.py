"""How many bytes a worker is sent: what pickling an object would write, counted and not kept."""

import pickle
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from cloudpickle import CloudPickler

_CONTAINERS: Final = (list, tuple, dict, set, frozenset)
_MOST_ELEMENTS: Final = 2_000
_SAMPLED_ELEMENTS: Final = 200
# What has many small parts in small containers is counted up to a bound: some tenths of a second.
# What is larger than the pickler's frames, as an array, is written as it is and takes no time.
_MOST_OBJECTS: Final = 20_000
_MOST_SMALL_BYTES: Final = 1 << 21
_LARGE_WRITE_BYTES: Final = (1 << 16) + (1 << 12)


@dataclass(frozen=True)
class Sent:
    """What sending an object would take.

    Attributes:
        bytes: The size of its pickle; None if it has none. A container of more than 2,000
            elements is estimated from a sample of them. Where there are more than 20,000 objects
            or 2 MiB of small values outside of such containers, it is at least this.
        unpicklable: Why it has none, in one line; "" if it has.
    """

    bytes: int | None
    unpicklable: str = ""


def sent(value: object, not_below: Sequence[object] = ()) -> Sent:
    """Count the bytes that Grain sends to each worker for an object.

    Grain sends `cloudpickle.dumps(dataset)`; this is the same without its copy of the data.

    Args:
        value: What is sent.
        not_below: Objects that it refers to and that are not counted with it, as the parents of
            a dataset.
    """
    try:
        return Sent(_counted(value, frozenset(map(id, not_below))))
    except Exception as error:  # noqa: BLE001  # what a user's object raises is for it to choose
        return Sent(None, f"{type(error).__name__}: {' '.join(str(error).split())}")


def _counted(value: object, left_out: frozenset[int]) -> int:
    count = _Count()
    with suppress(_EnoughError):
        _Counting(count, left_out).dump(value)
    return count.total_bytes


class _EnoughError(Exception):
    """Ends the count of an object that has more small parts than there is time for."""


class _Count:
    """A file that only counts what is written to it."""

    def __init__(self) -> None:
        self.total_bytes = 0
        self._small_bytes = 0

    def write(self, data: bytes | memoryview) -> int:
        """Count what the pickler writes: frames of small objects, or one large object."""
        size = memoryview(data).nbytes
        self.total_bytes += size
        self._small_bytes += size if size < _LARGE_WRITE_BYTES else 0
        if self._small_bytes > _MOST_SMALL_BYTES:
            raise _EnoughError
        return size


class _Counting(CloudPickler):  # type: ignore[misc]  # cloudpickle is untyped
    def __init__(self, count: _Count, left_out: frozenset[int]) -> None:
        super().__init__(count, pickle.HIGHEST_PROTOCOL)
        self._count = count
        self._left_out = left_out
        self._objects = 0

    def persistent_id(self, obj: object) -> bool | None:
        """Keep the pickler out of what is not counted, and of what is counted by a sample."""
        if id(obj) in self._left_out:
            return True
        if type(obj) in _CONTAINERS and len(obj) > _MOST_ELEMENTS:  # type: ignore[arg-type]
            self._count.total_bytes += self._estimated(obj)  # type: ignore[arg-type]
            return True
        return None

    def reducer_override(self, obj: object) -> Any:
        """Count the objects that are asked how to pickle them, which takes the most time."""
        self._objects += 1
        if self._objects > _MOST_OBJECTS:
            raise _EnoughError
        return super().reducer_override(obj)

    def _estimated(self, container: Collection[object]) -> int:
        """Estimate a container's pickle from what the second half of a sample adds to the first.

        What all elements share is in the first half, and is counted once.
        """
        sample = _every(len(container) // _SAMPLED_ELEMENTS, container)
        half = _every(2, sample)
        half_bytes, sample_bytes = (_counted(one, self._left_out) for one in (half, sample))
        per_element = (sample_bytes - half_bytes) / (len(sample) - len(half))
        return sample_bytes + round(per_element * (len(container) - len(sample)))


def _every(step: int, container: Collection[object]) -> Collection[object]:
    """Return a container of the same kind with one of every `step` elements."""
    elements = container.items() if isinstance(container, dict) else container
    kind: Any = type(container)
    every: Collection[object] = kind(islice(elements, 0, None, step))
    return every
