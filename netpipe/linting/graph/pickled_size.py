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
class PickledSize:
    """What sending an object would take.

    Attributes:
        bytes: The size of its pickle; None if it has none. A container of more than 2,000
            elements is estimated from a sample of them. Where there are more than 20,000 objects
            or 2 MiB of small values outside of such containers, it is at least this.
        unpicklable: Why it has none, in one line; "" if it has.
    """

    bytes: int | None
    unpicklable: str = ""


class PickleSizer:
    """What the workers of one `mp_prefetch` are sent: each object once, whatever refers to it.

    Grain sends `cloudpickle.dumps(dataset)`; this is the same without its copy of the data, one
    dataset after the other.
    """

    def __init__(self) -> None:
        self._counting = _Counting()

    def measure(self, value: object, not_below: Sequence[object] = ()) -> PickledSize:
        """Count the bytes of an object, without those of what was counted before.

        Args:
            value: What is sent.
            not_below: Objects that it refers to and that are not counted with it, as the parents
                of a dataset.
        """
        try:
            return PickledSize(self._counting.count(value, frozenset(map(id, not_below))))
        except Exception as error:  # noqa: BLE001  # what a user's object raises is for it to choose
            self._counting = _Counting()  # it remembers as sent what it has not come to
            return PickledSize(None, _in_one_line(error))


def _in_one_line(error: Exception) -> str:
    try:
        return f"{type(error).__name__}: {' '.join(str(error).split())}"
    except Exception:  # noqa: BLE001  # a user's error may fail to tell itself
        return type(error).__name__


class _EnoughError(Exception):
    """Ends the count of an object that has more small parts than there is time for."""


class _Count:
    """A file that only counts what is written to it."""

    def __init__(self) -> None:
        self.start()

    def start(self) -> None:
        """Count from nothing on."""
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
    """A pickler that keeps its memo from one object to the next, and that keeps no data."""

    def __init__(self) -> None:
        self._count = _Count()
        super().__init__(self._count, pickle.HIGHEST_PROTOCOL)
        self._left_out: frozenset[int] = frozenset()
        self._objects = 0
        self._estimated: dict[int, object] = {}  # values too: ids are theirs while they live

    def count(self, value: object, left_out: frozenset[int]) -> int:
        """Count the bytes of what the memo does not have."""
        self._left_out, self._objects = left_out, 0
        self._count.start()
        with suppress(_EnoughError):
            self.dump(value)
        return self._count.total_bytes

    def persistent_id(self, obj: object) -> bool | None:
        """Keep the pickler out of what is not counted, and of what is counted by a sample."""
        if id(obj) in self._left_out or id(obj) in self._estimated:
            return True
        if type(obj) in _CONTAINERS and len(obj) > _MOST_ELEMENTS:  # type: ignore[arg-type]
            self._estimated[id(obj)] = obj
            self._count.total_bytes += _estimate(obj, self._left_out)  # type: ignore[arg-type]
            return True
        return None

    def reducer_override(self, obj: object) -> Any:
        """Count the objects that are asked how to pickle them, which takes the most time."""
        self._objects += 1
        if self._objects > _MOST_OBJECTS:
            raise _EnoughError
        return super().reducer_override(obj)


def _estimate(container: Collection[object], left_out: frozenset[int]) -> int:
    """Estimate a container's pickle from what the second half of a sample adds to the first.

    What all elements share is in the first half, and is counted once.
    """
    sample = _every(len(container) // _SAMPLED_ELEMENTS, container)
    half = _every(2, sample)
    half_bytes, sample_bytes = (_Counting().count(one, left_out) for one in (half, sample))
    per_element = (sample_bytes - half_bytes) / (len(sample) - len(half))
    return sample_bytes + round(per_element * (len(container) - len(sample)))


def _every(step: int, container: Collection[object]) -> Collection[object]:
    """Return a container of the same kind with one of every `step` elements."""
    elements = container.items() if isinstance(container, dict) else container
    kind: Any = type(container)
    every: Collection[object] = kind(islice(elements, 0, None, step))
    return every
