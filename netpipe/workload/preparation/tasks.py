"""The tasks of `prepare`: independent, idempotent, and small when pickled.

A task reads sources or files of the work folder, writes files into the work folder, and last its
result as `<name>.json`: where that exists, the task is done, and running it again does nothing.
Its files depend on the task alone. `prepare.py` says what a runner has to do.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import cattrs

from netpipe.errors import InputError
from netpipe.workload.formats.places import Place

_IS_INVALID = "is_invalid_input"

Advance = Callable[[int], None]
"""Called with a number of rows that were done."""


@dataclass(frozen=True)
class Task(ABC):
    """A part of the work.

    Attributes:
        work: The work folder.
        name: Names its files there.
        rows: Measurements that it reads; a run of it advances by about as many.
    """

    work: Place
    name: str
    rows: int

    result_type: ClassVar[type[Any]]
    """A dataclass."""

    @property
    def place(self) -> Place:
        """Where its result is."""
        return self.work / f"{self.name}.json"

    def run(self, advance: Advance) -> None:
        """Do the work, unless it is done.

        Raises:
            InputError: A source, or a value in it, is invalid.
            OSError: A file cannot be read or written.
        """
        if self.result() is None:
            try:
                document = json.dumps(asdict(self.do(advance)))
            except InputError as error:
                # Unlike the cause, which a full disk has, this reaches the parent process.
                vars(error)[_IS_INVALID] = error.__cause__ is None
                raise
            self.place.write(document.encode())

    def result(self) -> Any:
        """Return the result, of type `result_type`; None if the task is not done."""
        stored = self.place.read()
        return None if stored is None else cattrs.structure(json.loads(stored), self.result_type)

    @abstractmethod
    def do(self, advance: Advance) -> Any:
        """Do the work and return its result."""


def is_invalid_input(error: BaseException) -> bool:
    """Return whether a task found invalid input: no full disk, and nothing about the output."""
    return bool(vars(error).get(_IS_INVALID, False))


Runner = Callable[[Sequence[Task], Advance], None]
"""Runs all tasks to their end, and raises what one of them raises."""


def run_here(tasks: Sequence[Task], advance: Advance) -> None:
    """Run tasks one after the other in this process: the simplest runner."""
    for task in tasks:
        task.run(advance)


def run_all(tasks: Sequence[Task], runner: Runner, advance: Advance) -> list[Any]:
    """Run the tasks that are not done yet; return the results of all, in their order."""
    # Were it asked for each, a network's file system could go on saying that a result is missing.
    stored = {file.path for file, _ in tasks[0].work.files()}
    waiting = [task for task in tasks if task.place.path not in stored]
    advance(sum(task.rows for task in tasks) - sum(task.rows for task in waiting))
    if waiting:
        runner(waiting, advance)
    return [task.result() for task in tasks]
