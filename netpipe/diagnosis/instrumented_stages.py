"""The time of each node of a Grain pipeline, by timing every call of it.

Grain's own figures lag, and count the waits for Python's lock (docs/diagnose.md). So the pipeline
runs in one thread, and every `__getitem__` or `__next__` is timed as it calls those below it.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial, wraps
from threading import local
from typing import Any, Final

import grain

_CALIBRATION_CALLS: Final = 2_000
_CALIBRATION_ROUNDS: Final = 5
_Method = Callable[..., Any]


@dataclass
class Spent:
    """The calls of one dataset, without those of the datasets below."""

    wall_s: float = 0.0
    cpu_s: float = 0.0
    calls: int = 0
    calls_below: int = 0


@dataclass(frozen=True)
class Overhead:
    """The wall and CPU seconds that timing one call adds.

    Attributes:
        own: To the dataset that is called.
        caller: To the dataset that calls it.
    """

    own: tuple[float, float]
    caller: tuple[float, float]


@dataclass(slots=True)
class _Call:
    """A running call of a dataset, and the timed calls within it."""

    number: int
    wall_s: float = 0.0
    cpu_s: float = 0.0
    calls: int = 0


@dataclass
class Timing:
    """The calls of some datasets while they are timed, by the number of the dataset."""

    spent: dict[int, Spent] = field(default_factory=lambda: defaultdict(Spent))
    _thread: local = field(default_factory=local)

    def reset(self) -> None:
        """Forget the calls so far."""
        self.spent.clear()

    def call(self, number: int, function: _Method, *arguments: Any) -> Any:
        """Call a function for a dataset, and add its time."""
        here = self._thread.__dict__
        outer = here.get("call")
        # A class that calls its base class is one call.
        if outer is not None and outer.number == number:
            return function(*arguments)
        here["call"] = call = _Call(number)
        wall_s, cpu_s = time.perf_counter(), time.thread_time()
        try:
            return function(*arguments)
        finally:
            cpu_s, wall_s = time.thread_time() - cpu_s, time.perf_counter() - wall_s
            here["call"] = outer
            spent = self.spent[number]
            spent.wall_s += wall_s - call.wall_s
            spent.cpu_s += cpu_s - call.cpu_s
            spent.calls += 1
            spent.calls_below += call.calls
            if outer is not None:
                outer.wall_s += wall_s
                outer.cpu_s += cpu_s
                outer.calls += 1


@contextmanager
def timed(numbered: Mapping[int, Any]) -> Iterator[Timing]:
    """Time the calls of datasets, by replacing methods of their classes meanwhile.

    Args:
        numbered: The datasets by their numbers; they must be iterated within.
    """
    timing = Timing()
    numbers = {id(dataset): number for number, dataset in numbered.items()}
    with ExitStack() as stack:
        for kind in {type(dataset) for dataset in numbered.values()}:
            if issubclass(kind, grain.MapDataset):
                _replace(stack, kind, "__getitem__", partial(_timed_getitem, timing, numbers))
                _replace(stack, kind, "__len__", partial(_timed_len, timing, numbers))
            else:
                _replace(stack, kind, "__iter__", partial(_timed_iter, stack, timing, numbers))
        yield timing


def _timed_getitem(timing: Timing, numbers: Mapping[int, int], original: _Method) -> _Method:
    def __getitem__(dataset: Any, index: Any) -> Any:  # noqa: N807  # the method it replaces
        number = numbers.get(id(dataset))
        if number is None or isinstance(index, slice):
            return original(dataset, index)
        return timing.call(number, original, dataset, index)

    return __getitem__


def _timed_len(timing: Timing, numbers: Mapping[int, int], original: _Method) -> _Method:
    """Time the length of a source, which Grain asks for with each element."""

    def __len__(dataset: Any) -> Any:  # noqa: N807  # the method it replaces
        number = numbers.get(id(dataset))
        if number is None or dataset.parents:
            return original(dataset)
        return timing.call(number, original, dataset)

    return __len__


def _timed_iter(
    stack: ExitStack, timing: Timing, numbers: Mapping[int, int], original: _Method
) -> _Method:
    # Holds the iterators too: an id is only unique while its object lives.
    known: dict[int, tuple[Any, int]] = {}
    kinds: set[type] = set()

    def timed_next(original: _Method) -> _Method:
        def __next__(iterator: Any) -> Any:  # noqa: N807  # the method it replaces
            if id(iterator) not in known:
                return original(iterator)
            return timing.call(known[id(iterator)][1], original, iterator)

        return __next__

    def __iter__(dataset: Any) -> Any:  # noqa: N807  # the method it replaces
        iterator, number = original(dataset), numbers.get(id(dataset))
        if number is None or id(iterator) in known:
            return iterator
        if not isinstance(iterator, grain.DatasetIterator):
            return _wrapped(timing, number, iterator)
        known[id(iterator)] = (iterator, number)
        if type(iterator) not in kinds:
            kinds.add(type(iterator))
            _replace(stack, type(iterator), "__next__", timed_next)
        return iterator

    return __iter__


def _wrapped(timing: Timing, number: int, iterator: Iterator[Any]) -> Iterator[Any]:
    """Time an iterator that is not Grain's, whose class may not allow changes."""

    # A new class each time, because Grain changes the class of the iterator that it returns.
    class Wrapped(Iterator[Any]):
        def __next__(self) -> Any:
            return timing.call(number, next, iterator)

        def __getattr__(self, name: str) -> Any:
            return getattr(iterator, name)

    return Wrapped()


def _replace(
    stack: ExitStack, kind: type, name: str, wrapper: Callable[[_Method], _Method]
) -> None:
    original = getattr(kind, name)
    if name in vars(kind):
        stack.callback(setattr, kind, name, original)
    else:
        stack.callback(delattr, kind, name)
    setattr(kind, name, wraps(original)(wrapper(original)))


def without_overhead(spent: Spent, overhead: Overhead) -> Spent:
    """Return the calls as if they had not been timed; at least 0 seconds."""
    wall_s, cpu_s = (
        max(0.0, raw - spent.calls * own - spent.calls_below * caller)
        for raw, own, caller in zip(
            (spent.wall_s, spent.cpu_s), overhead.own, overhead.caller, strict=True
        )
    )
    return Spent(wall_s, cpu_s, spent.calls, spent.calls_below)


def measure_overhead() -> Overhead:
    """Return the least overhead of calls that do nothing, one within the other."""
    rounds = [_calibrate() for _ in range(_CALIBRATION_ROUNDS)]
    wall_s, cpu_s, caller_wall_s, caller_cpu_s = (
        min(figures) / _CALIBRATION_CALLS for figures in zip(*rounds, strict=True)
    )
    return Overhead((wall_s, cpu_s), (caller_wall_s, caller_cpu_s))


def _calibrate() -> tuple[float, float, float, float]:
    timing = Timing()

    def do_nothing() -> None:
        return None

    def call_repeatedly() -> None:
        for _ in range(_CALIBRATION_CALLS):
            timing.call(1, do_nothing)

    timing.call(0, call_repeatedly)
    own, caller = timing.spent[1], timing.spent[0]
    return own.wall_s, own.cpu_s, caller.wall_s, caller.cpu_s
