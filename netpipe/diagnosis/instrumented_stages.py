"""Measures the time of each dataset of a Grain pipeline by timing every call of it.

Grain's own figures lag, and include waits for Python's lock (docs/diagnose.md). So the pipeline
runs in one thread, and every `__getitem__` and `__next__` is timed. The time of the calls that it
makes to the datasets below it is counted for those.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from threading import local
from typing import Any, Final, NamedTuple, Protocol

import grain

from netpipe.linting.experiments.variants import Method, replaced_method

_CALIBRATION_CALLS: Final = 2_000
_CALIBRATION_ROUNDS: Final = 5


@dataclass
class Spent:
    """The time and number of the calls of one dataset.

    The seconds do not include the calls of the datasets below, which `calls_below` counts.
    """

    wall_s: float = 0.0
    cpu_s: float = 0.0
    calls: int = 0
    calls_below: int = 0


class Overhead(NamedTuple):
    """The seconds that timing one call adds to the called dataset itself, and to its caller."""

    own_wall_s: float
    own_cpu_s: float
    caller_wall_s: float
    caller_cpu_s: float


@dataclass(slots=True)
class _Call:
    """A running call of a dataset, and the sum of the timed calls within it."""

    number: int
    inner_wall_s: float = 0.0
    inner_cpu_s: float = 0.0
    inner_calls: int = 0


class Timing:
    """Times the calls of datasets, each of which has a number."""

    def __init__(self) -> None:
        self.spent: dict[int, Spent] = defaultdict(Spent)
        self._thread = local()

    def call(self, number: int, function: Method, *arguments: Any) -> Any:
        """Call a method of a dataset, and add its time to that of the dataset."""
        current = self._thread.__dict__
        outer = current.get("call")
        # A class that calls its base class is one call.
        if outer is not None and outer.number == number:
            return function(*arguments)
        current["call"] = call = _Call(number)
        wall_s, cpu_s = time.perf_counter(), time.thread_time()
        try:
            return function(*arguments)
        finally:
            cpu_s, wall_s = time.thread_time() - cpu_s, time.perf_counter() - wall_s
            current["call"] = outer
            spent = self.spent[number]
            spent.wall_s += wall_s - call.inner_wall_s
            spent.cpu_s += cpu_s - call.inner_cpu_s
            spent.calls += 1
            spent.calls_below += call.inner_calls
            if outer is not None:
                outer.inner_wall_s += wall_s
                outer.inner_cpu_s += cpu_s
                outer.inner_calls += 1


class CallObserver(Protocol):
    """Runs the calls of numbered datasets, and notes something about each."""

    def call(self, number: int, function: Method, *arguments: Any) -> Any:
        """Call a method of a dataset; return what it returns."""


@contextmanager
def timed(numbered: Mapping[int, Any]) -> Iterator[Timing]:
    """Time the calls of numbered datasets until the exit."""
    timing = Timing()
    with observed(numbered, timing):
        yield timing


@contextmanager
def observed(numbered: Mapping[int, Any], observer: CallObserver) -> Iterator[None]:
    """Have the calls of numbered datasets observed, by replacing methods of their classes."""
    with ExitStack() as stack:
        wrappers = _Wrappers(numbered, observer, stack)
        for kind in {type(dataset) for dataset in numbered.values()}:
            if issubclass(kind, grain.MapDataset):
                wrappers.replace(kind, "__getitem__", wrappers.observe_getitem)
                wrappers.replace(kind, "__len__", wrappers.observe_len)
            else:
                wrappers.replace(kind, "__iter__", wrappers.observe_iter)
        yield


class _Wrappers:
    """Replaces methods of numbered datasets and of their iterators for an observer."""

    def __init__(
        self, numbered: Mapping[int, Any], observer: CallObserver, stack: ExitStack
    ) -> None:
        self._observer = observer
        self._stack = stack
        self._numbers = {id(dataset): number for number, dataset in numbered.items()}

    def replace(self, kind: type, name: str, wrapper: Callable[[Method], Method]) -> None:
        self._stack.enter_context(replaced_method(kind, name, wrapper))

    def observe_getitem(self, original: Method) -> Method:
        observer, numbers = self._observer, self._numbers

        def __getitem__(dataset: Any, index: Any) -> Any:  # noqa: N807  # the method it replaces
            number = numbers.get(id(dataset))
            if number is None or isinstance(index, slice):
                return original(dataset, index)
            return observer.call(number, original, dataset, index)

        return __getitem__

    def observe_len(self, original: Method) -> Method:
        """Observe the length of a source, which Grain asks for with each element."""
        observer, numbers = self._observer, self._numbers

        def __len__(dataset: Any) -> Any:  # noqa: N807  # the method it replaces
            number = numbers.get(id(dataset))
            if number is None or dataset.parents:
                return original(dataset)
            return observer.call(number, original, dataset)

        return __len__

    def observe_iter(self, original: Method) -> Method:
        # By id, each iterator and its number; an id is unique only while its object lives.
        known: dict[int, tuple[Any, int]] = {}
        replaced_types: set[type] = set()

        def __iter__(dataset: Any) -> Any:  # noqa: N807  # the method it replaces
            iterator, number = original(dataset), self._numbers.get(id(dataset))
            if number is None or id(iterator) in known:
                return iterator
            if not isinstance(iterator, grain.DatasetIterator):
                return _wrap_iterator(self._observer, number, iterator)
            known[id(iterator)] = (iterator, number)
            if type(iterator) not in replaced_types:
                replaced_types.add(type(iterator))
                self.replace(type(iterator), "__next__", partial(self._observe_next, known))
            return iterator

        return __iter__

    def _observe_next(self, known: Mapping[int, tuple[Any, int]], original: Method) -> Method:
        observer = self._observer

        def __next__(iterator: Any) -> Any:  # noqa: N807  # the method it replaces
            if id(iterator) not in known:
                return original(iterator)
            return observer.call(known[id(iterator)][1], original, iterator)

        return __next__


def _wrap_iterator(observer: CallObserver, number: int, iterator: Iterator[Any]) -> Iterator[Any]:
    """Have an iterator observed that is not Grain's, whose class may not allow changes."""

    # A new class each time, because Grain changes the class of the iterator that it returns.
    class Wrapped(Iterator[Any]):
        def __next__(self) -> Any:
            return observer.call(number, next, iterator)

        def __getattr__(self, name: str) -> Any:
            return getattr(iterator, name)

    return Wrapped()


def without_overhead(spent: Spent, overhead: Overhead) -> Spent:
    """Return the calls without the seconds that timing them added; at least 0 seconds."""
    own, below = spent.calls, spent.calls_below
    wall_s = spent.wall_s - own * overhead.own_wall_s - below * overhead.caller_wall_s
    cpu_s = spent.cpu_s - own * overhead.own_cpu_s - below * overhead.caller_cpu_s
    return replace(spent, wall_s=max(0.0, wall_s), cpu_s=max(0.0, cpu_s))


def measure_overhead() -> Overhead:
    """Return the overhead of timing calls that do nothing, within another call: the least found."""

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
