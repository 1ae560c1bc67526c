"""Times every call of each dataset of a Grain pipeline.

Grain's own figures lag, and include waits for Python's lock (docs/diagnose.md). So the pipeline
runs in one thread, and every `__getitem__` and `__next__` is timed, excluding its calls to the
datasets below it.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from threading import local
from typing import Any, Final

import grain

from netpipe.grain_access.replaced_methods import Method, replaced_method

_CALIBRATION_CALLS: Final = 2_000
_CALIBRATION_ROUNDS: Final = 5

Observe = Callable[..., Any]
"""Calls a method of a dataset, given its number, the method and its arguments."""


@dataclass
class Spent:
    """The time and number of a dataset's calls; the time excludes its `calls_below` to others."""

    wall_s: float = 0.0
    cpu_s: float = 0.0
    calls: int = 0
    calls_below: int = 0


class Timing:
    """Times the calls of numbered datasets."""

    def __init__(self) -> None:
        self.spent: dict[int, Spent] = defaultdict(Spent)
        self._thread = local()

    def call(self, number: int, function: Method, *arguments: Any) -> Any:
        """Call a method of a dataset, and add the time to the dataset's total."""
        outer = getattr(self._thread, "running", None)
        # A method that calls its base class counts as one call.
        if outer == number:
            return function(*arguments)
        self._switch(outer, number)
        try:
            return function(*arguments)
        finally:
            self._switch(number, outer)
            self.spent[number].calls += 1
            if outer is not None:
                self.spent[outer].calls_below += 1

    def _switch(self, before: int | None, after: int | None) -> None:
        """Add the time since the last switch to the dataset whose call was running."""
        wall_s, cpu_s = time.perf_counter(), time.thread_time()
        if before is not None:
            since_wall_s, since_cpu_s = self._thread.since_s
            self.spent[before].wall_s += wall_s - since_wall_s
            self.spent[before].cpu_s += cpu_s - since_cpu_s
        self._thread.running, self._thread.since_s = after, (wall_s, cpu_s)


@contextmanager
def observed(numbered: Mapping[int, Any], observe: Observe) -> Iterator[None]:
    """Observe the calls of numbered datasets by replacing methods of their classes."""
    with ExitStack() as stack:
        numbers = {id(dataset): number for number, dataset in numbered.items()}
        methods = _ObservedMethods(numbers, observe, stack)
        for kind in {type(dataset) for dataset in numbered.values()}:
            if issubclass(kind, grain.MapDataset):
                methods.observe(kind, "__getitem__", lambda _, index: isinstance(index, slice))
                # Grain asks for the length of a source with each element.
                methods.observe(kind, "__len__", lambda dataset: bool(dataset.parents))
            else:
                stack.enter_context(replaced_method(kind, "__iter__", methods.observe_iterators))
        yield


class _ObservedMethods:
    """Replaces methods of datasets and of their iterators; `numbers` maps their ids to numbers."""

    def __init__(self, numbers: dict[int, int], observe: Observe, stack: ExitStack) -> None:
        self._numbers = numbers
        self._observe = observe
        self._stack = stack
        # Keep the iterators alive: an id is unique only while its object lives.
        self._iterators: list[Any] = []
        self._kinds: set[type] = set()

    def observe(
        self, kind: type, name: str, ignores: Callable[..., bool] = lambda *_: False
    ) -> None:
        """Observe a method, except for calls with arguments that `ignores` accepts."""
        observe, numbers = self._observe, self._numbers

        def wrap(original: Method) -> Method:
            def observed_method(owner: Any, *arguments: Any) -> Any:
                number = numbers.get(id(owner))
                if number is None or ignores(owner, *arguments):
                    return original(owner, *arguments)
                return observe(number, original, owner, *arguments)

            return observed_method

        self._stack.enter_context(replaced_method(kind, name, wrap))

    def observe_iterators(self, original: Method) -> Method:
        """Wrap the `__iter__` of a class, so that the iterators of its datasets are observed."""

        def __iter__(dataset: Any) -> Any:  # noqa: N807  # the method it replaces
            iterator, number = original(dataset), self._numbers.get(id(dataset))
            if number is None or id(iterator) in self._numbers:
                return iterator
            if not isinstance(iterator, grain.DatasetIterator):
                return _wrap_iterator(self._observe, number, iterator)
            self._numbers[id(iterator)] = number
            self._iterators.append(iterator)
            if type(iterator) not in self._kinds:
                self._kinds.add(type(iterator))
                self.observe(type(iterator), "__next__")
            return iterator

        return __iter__


def _wrap_iterator(observe: Observe, number: int, iterator: Iterator[Any]) -> Iterator[Any]:
    """Wrap a non-Grain iterator, whose class may not allow changes, in an observed one."""

    # Grain changes the class of the iterator that it returns, so each needs its own class.
    class Wrapped(Iterator[Any]):
        def __next__(self) -> Any:
            return observe(number, next, iterator)

        def __getattr__(self, name: str) -> Any:
            return getattr(iterator, name)

    return Wrapped()


def without_overhead(spent: Spent, own: Spent, caller: Spent) -> Spent:
    """Return the calls without the overhead of timing them; their times are at least 0.

    `own` and `caller` are from the calibration: calls that do nothing, and their caller.
    """
    calls, below = spent.calls / own.calls, spent.calls_below / caller.calls_below
    wall_s = spent.wall_s - calls * own.wall_s - below * caller.wall_s
    cpu_s = spent.cpu_s - calls * own.cpu_s - below * caller.cpu_s
    return replace(spent, wall_s=max(0.0, wall_s), cpu_s=max(0.0, cpu_s))


def measure_overhead() -> tuple[Spent, Spent]:
    """Time calls that do nothing, and their caller, in several rounds; return the quickest."""

    def call_repeatedly(timing: Timing) -> None:
        for _ in range(_CALIBRATION_CALLS):
            timing.call(1, lambda: None)

    rounds = []
    for _ in range(_CALIBRATION_ROUNDS):
        timing = Timing()
        timing.call(0, call_repeatedly, timing)
        rounds.append((timing.spent[1], timing.spent[0]))
    return min(rounds, key=lambda found: found[0].wall_s + found[1].wall_s)
