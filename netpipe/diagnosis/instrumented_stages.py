"""What each node of a Grain pipeline takes, by our own timing around every call of it.

Grain's figures lag, and count the waits for Python's lock (docs/diagnose.md): so the pipeline runs
in one thread, and every dataset's `__getitem__` or `__next__` is timed as it calls those below it.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import wraps
from threading import local
from typing import Any, Final

import grain

_CALIBRATION_CALLS: Final = 2_000
_CALIBRATION_LOOKS: Final = 5


@dataclass
class Spent:
    """What the calls of one dataset took, without those of the datasets below.

    Attributes:
        wall_s: Wall seconds.
        cpu_s: CPU seconds of the calling thread.
        calls: How often it was called.
        calls_below: How often it called another that is timed.
    """

    wall_s: float = 0.0
    cpu_s: float = 0.0
    calls: int = 0
    calls_below: int = 0


@dataclass(frozen=True)
class Overhead:
    """What timing one call adds to the figures, in wall and in CPU seconds.

    Attributes:
        own: To those of the dataset that is called.
        caller: To those of the one that calls it.
    """

    own: tuple[float, float]
    caller: tuple[float, float]


@dataclass(slots=True)
class Inner:
    """What the timed calls within a call took, and how many there were.

    Attributes:
        number: Of the dataset that is called.
    """

    number: int
    wall_s: float = 0.0
    cpu_s: float = 0.0
    calls: int = 0


@dataclass
class Timing:
    """The calls of some datasets while they are timed.

    Attributes:
        spent: By the number of the dataset.
    """

    spent: dict[int, Spent] = field(default_factory=lambda: defaultdict(Spent))
    _here: local = field(default_factory=local)

    def start_anew(self) -> None:
        """Forget what was timed so far: the first calls open files."""
        self.spent.clear()

    def call(self, number: int, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function for a dataset, and count what it takes."""
        here = self._here.__dict__
        around = here.get("inner")
        if around is not None and around.number == number:  # a class calls that which it is made of
            return function(*arguments)
        here["inner"] = inner = Inner(number)
        wall_s, cpu_s = time.perf_counter(), time.thread_time()
        try:
            return function(*arguments)
        finally:
            cpu_s, wall_s = time.thread_time() - cpu_s, time.perf_counter() - wall_s
            here["inner"] = around
            spent = self.spent[number]
            spent.wall_s += wall_s - inner.wall_s
            spent.cpu_s += cpu_s - inner.cpu_s
            spent.calls += 1
            spent.calls_below += inner.calls
            if around is not None:
                around.wall_s += wall_s
                around.cpu_s += cpu_s
                around.calls += 1


@contextmanager
def timed(numbered: Mapping[int, Any]) -> Iterator[Timing]:
    """Time the calls of datasets by their classes, which are as they were afterwards.

    Args:
        numbered: The datasets by their numbers; they must be iterated within.
    """
    timing = Timing()
    numbers = {id(dataset): number for number, dataset in numbered.items()}
    with ExitStack() as stack:
        for kind in {type(dataset) for dataset in numbered.values()}:
            if issubclass(kind, grain.MapDataset):
                _replace(stack, kind, "__getitem__", _timed_getitem(timing, numbers))
                _replace(stack, kind, "__len__", _timed_len(timing, numbers))
            else:
                _replace(stack, kind, "__iter__", _timed_iter(stack, timing, numbers))
        yield timing


def _timed_getitem(timing: Timing, numbers: Mapping[int, int]) -> Callable[..., Any]:
    def around(original: Callable[..., Any]) -> Callable[..., Any]:
        def __getitem__(dataset: Any, index: Any) -> Any:  # noqa: N807  # the method it replaces
            number = numbers.get(id(dataset))
            if number is None or isinstance(index, slice):
                return original(dataset, index)
            return timing.call(number, original, dataset, index)

        return __getitem__

    return around


def _timed_len(timing: Timing, numbers: Mapping[int, int]) -> Callable[..., Any]:
    """Time how long a source takes to tell its length, which Grain asks for each element."""

    def around(original: Callable[..., Any]) -> Callable[..., Any]:
        def __len__(dataset: Any) -> Any:  # noqa: N807  # the method it replaces
            number = numbers.get(id(dataset))
            if number is None or dataset.parents:
                return original(dataset)
            return timing.call(number, original, dataset)

        return __len__

    return around


def _timed_iter(stack: ExitStack, timing: Timing, numbers: Mapping[int, int]) -> Callable[..., Any]:
    iterators: dict[int, tuple[Any, int]] = {}  # values hold them: ids are theirs while they live
    kinds: set[type] = set()

    def timed_next(original: Callable[..., Any]) -> Callable[..., Any]:
        def __next__(iterator: Any) -> Any:  # noqa: N807  # the method it replaces
            known = iterators.get(id(iterator))
            if known is None:
                return original(iterator)
            return timing.call(known[1], original, iterator)

        return __next__

    def around(original: Callable[..., Any]) -> Callable[..., Any]:
        def __iter__(dataset: Any) -> Any:  # noqa: N807  # the method it replaces
            iterator, number = original(dataset), numbers.get(id(dataset))
            if number is None or id(iterator) in iterators:
                return iterator
            if not isinstance(iterator, grain.DatasetIterator):
                return _wrapped(timing, number, iterator)
            iterators[id(iterator)] = (iterator, number)
            if type(iterator) not in kinds:
                kinds.add(type(iterator))
                _replace(stack, type(iterator), "__next__", timed_next)
            return iterator

        return __iter__

    return around


def _wrapped(timing: Timing, number: int, iterator: Iterator[Any]) -> Iterator[Any]:
    """Time an iterator that is none of Grain's, whose class may be one that cannot be changed."""

    # A class each time, for Grain changes that of the iterator which it gives to the user.
    class Wrapped(Iterator[Any]):
        def __next__(self) -> Any:
            return timing.call(number, next, iterator)

        def __getattr__(self, name: str) -> Any:
            return getattr(iterator, name)

    return Wrapped()


def _replace(
    stack: ExitStack, kind: type, name: str, by: Callable[[Callable[..., Any]], Callable[..., Any]]
) -> None:
    original = getattr(kind, name)
    inherits = name not in vars(kind)
    stack.callback(
        (lambda: delattr(kind, name)) if inherits else (lambda: setattr(kind, name, original))
    )
    setattr(kind, name, wraps(original)(by(original)))


def without_overhead(spent: Spent, overhead: Overhead) -> Spent:
    """Return what the calls would have taken untimed; never less than nothing."""
    wall_s, cpu_s = (
        max(0.0, raw - spent.calls * own - spent.calls_below * caller)
        for raw, own, caller in zip(
            (spent.wall_s, spent.cpu_s), overhead.own, overhead.caller, strict=True
        )
    )
    return Spent(wall_s, cpu_s, spent.calls, spent.calls_below)


def measured_overhead() -> Overhead:
    """Time calls that do nothing, one within the other."""
    looks = [_one_look() for _ in range(_CALIBRATION_LOOKS)]
    return Overhead(
        own=(min(one[0] for one in looks), min(one[1] for one in looks)),
        caller=(min(one[2] for one in looks), min(one[3] for one in looks)),
    )


def _one_look() -> tuple[float, float, float, float]:
    timing = Timing()

    def nothing() -> None:
        return None

    def calls_nothing() -> None:
        for _ in range(_CALIBRATION_CALLS):
            timing.call(1, nothing)

    timing.call(0, calls_nothing)
    within, around = timing.spent[1], timing.spent[0]
    return tuple(  # type: ignore[return-value]
        seconds / _CALIBRATION_CALLS
        for seconds in (within.wall_s, within.cpu_s, around.wall_s, around.cpu_s)
    )
