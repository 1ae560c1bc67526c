"""The time of each node of a Grain pipeline, by timing every call of it.

Grain's own figures lag, and count the waits for Python's lock (docs/diagnose.md). So the pipeline
runs in one thread, and every `__getitem__` or `__next__` is timed as it calls those below it.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from threading import local
from typing import Any, Final, NamedTuple

import grain

from netpipe.diagnosis.loader_variants import replaced_method

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


class Overhead(NamedTuple):
    """What timing one call adds to the dataset that is called, and to the one that calls it."""

    own_wall_s: float
    own_cpu_s: float
    caller_wall_s: float
    caller_cpu_s: float


@dataclass(slots=True)
class _Call:
    """A running call of a dataset, and the timed calls within it."""

    number: int
    wall_s: float = 0.0
    cpu_s: float = 0.0
    calls: int = 0


class Timing:
    """Times the calls of datasets, which it tells apart by their numbers."""

    def __init__(self) -> None:
        self.spent: dict[int, Spent] = defaultdict(Spent)
        self._thread = local()

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
    """Time the calls of numbered datasets, by replacing methods of their classes meanwhile."""
    with ExitStack() as stack:
        wrappers = _Wrappers(numbered, stack)
        for kind in {type(dataset) for dataset in numbered.values()}:
            if issubclass(kind, grain.MapDataset):
                wrappers.replace(kind, "__getitem__", wrappers.time_getitem)
                wrappers.replace(kind, "__len__", wrappers.time_len)
            else:
                wrappers.replace(kind, "__iter__", wrappers.time_iter)
        yield wrappers.timing


class _Wrappers:
    """Methods that time those of the numbered datasets and of their iterators."""

    def __init__(self, numbered: Mapping[int, Any], stack: ExitStack) -> None:
        self.timing = Timing()
        self._stack = stack
        self._numbers = {id(dataset): number for number, dataset in numbered.items()}

    def replace(self, kind: type, name: str, wrapper: Callable[[_Method], _Method]) -> None:
        self._stack.enter_context(replaced_method(kind, name, wrapper))

    def time_getitem(self, original: _Method) -> _Method:
        timing, numbers = self.timing, self._numbers

        def __getitem__(dataset: Any, index: Any) -> Any:  # noqa: N807  # the method it replaces
            number = numbers.get(id(dataset))
            if number is None or isinstance(index, slice):
                return original(dataset, index)
            return timing.call(number, original, dataset, index)

        return __getitem__

    def time_len(self, original: _Method) -> _Method:
        """Time the length of a source, which Grain asks for with each element."""
        timing, numbers = self.timing, self._numbers

        def __len__(dataset: Any) -> Any:  # noqa: N807  # the method it replaces
            number = numbers.get(id(dataset))
            if number is None or dataset.parents:
                return original(dataset)
            return timing.call(number, original, dataset)

        return __len__

    def time_iter(self, original: _Method) -> _Method:
        # Holds the iterators too: an id is only unique while its object lives.
        known: dict[int, tuple[Any, int]] = {}
        kinds: set[type] = set()

        def __iter__(dataset: Any) -> Any:  # noqa: N807  # the method it replaces
            iterator, number = original(dataset), self._numbers.get(id(dataset))
            if number is None or id(iterator) in known:
                return iterator
            if not isinstance(iterator, grain.DatasetIterator):
                return _wrap_iterator(self.timing, number, iterator)
            known[id(iterator)] = (iterator, number)
            if type(iterator) not in kinds:
                kinds.add(type(iterator))
                self.replace(type(iterator), "__next__", partial(self._time_next, known))
            return iterator

        return __iter__

    def _time_next(self, known: Mapping[int, tuple[Any, int]], original: _Method) -> _Method:
        timing = self.timing

        def __next__(iterator: Any) -> Any:  # noqa: N807  # the method it replaces
            if id(iterator) not in known:
                return original(iterator)
            return timing.call(known[id(iterator)][1], original, iterator)

        return __next__


def _wrap_iterator(timing: Timing, number: int, iterator: Iterator[Any]) -> Iterator[Any]:
    """Time an iterator that is not Grain's, whose class may not allow changes."""

    # A new class each time, because Grain changes the class of the iterator that it returns.
    class Wrapped(Iterator[Any]):
        def __next__(self) -> Any:
            return timing.call(number, next, iterator)

        def __getattr__(self, name: str) -> Any:
            return getattr(iterator, name)

    return Wrapped()


def without_overhead(spent: Spent, overhead: Overhead) -> Spent:
    """Return the calls as if they had not been timed; at least 0 seconds."""
    own, below = spent.calls, spent.calls_below
    wall_s = spent.wall_s - own * overhead.own_wall_s - below * overhead.caller_wall_s
    cpu_s = spent.cpu_s - own * overhead.own_cpu_s - below * overhead.caller_cpu_s
    return replace(spent, wall_s=max(0.0, wall_s), cpu_s=max(0.0, cpu_s))


def measure_overhead() -> Overhead:
    """Return the least overhead of calls that do nothing, one within the other."""

    def call_repeatedly(timing: Timing) -> None:
        for _ in range(_CALIBRATION_CALLS):
            timing.call(1, do_nothing)

    def do_nothing() -> None:
        return None

    rounds = []
    for _ in range(_CALIBRATION_ROUNDS):
        timing = Timing()
        timing.call(0, call_repeatedly, timing)
        own, caller = timing.spent[1], timing.spent[0]
        rounds.append((own.wall_s, own.cpu_s, caller.wall_s, caller.cpu_s))
    return Overhead(*(min(seconds) / _CALIBRATION_CALLS for seconds in zip(*rounds, strict=True)))
