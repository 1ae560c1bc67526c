"""The tasks of `prepare`: independent, idempotent, and small when pickled.

A task reads sources or files in the work folder, writes files to the work folder, and finally
writes its result as `<name>.json`. If that file exists, running the task again does nothing. The
files depend on the task alone.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import cattrs

from netpipe.errors import InputError
from netpipe.workload.formats.places import PART_SUFFIX, Place

_IS_INVALID = "is_invalid_input"

Advance = Callable[[int], None]
"""Called with the number of rows processed since the last call."""


@dataclass(frozen=True)
class Task(ABC):
    """A part of the work; its files in the work folder have names that begin with `name`.

    `rows` is the approximate number of measurements that `run` reports to `advance`.
    """

    work: Place
    name: str
    rows: int

    result_type: ClassVar[type[Any]]  # a dataclass

    @property
    def place(self) -> Place:
        """The file that holds the task's result."""
        return self.work / f"{self.name}.json"

    def run(self, advance: Advance) -> None:
        """Do the work unless it is already done; raise an InputError for invalid input."""
        if self.result() is None:
            try:
                document = json.dumps(asdict(self.do(advance)))
            except InputError as error:
                # Pickling drops causes, such as that of a full disk, but keeps this flag.
                vars(error)[_IS_INVALID] = error.__cause__ is None
                raise
            self.place.write(document.encode())

    def result(self) -> Any:
        """Return the result, of type `result_type`, or None if the task is not done."""
        stored = self.place.read()
        return None if stored is None else cattrs.structure(json.loads(stored), self.result_type)

    @abstractmethod
    def do(self, advance: Advance) -> Any:
        """Do the work and return its result."""


def is_invalid_input(error: BaseException) -> bool:
    """Return whether a task's error means invalid input, unlike a full disk, for example."""
    return bool(vars(error).get(_IS_INVALID, False))


Runner = Callable[[Sequence[Task], Advance], None]
"""Calls `run` on every task, in any order, process or machine, and raises one task's error.

A task may run twice, even at the same time. Tasks in other processes need not call `advance` if
the runner itself calls it with the `rows` of each finished task.
"""


def run_here(tasks: Sequence[Task], advance: Advance) -> None:
    """Run tasks one after the other in this process."""
    for task in tasks:
        task.run(advance)


def run_all(tasks: Sequence[Task], runner: Runner, advance: Advance) -> list[Any]:
    """Run the tasks that are not done yet; return the results of all tasks, in order."""
    # Asking for each file would make a network file system cache that a result is missing.
    work = tasks[0].work
    stored = {file.path: file for file, _ in work.files()}
    for path, file in stored.items():
        # A killed task leaves an unfinished file, or a folder of unfinished files.
        if path.endswith(PART_SUFFIX) or "/" in path.removeprefix(f"{work.path}/"):
            file.delete()
    waiting = [task for task in tasks if task.place.path not in stored]
    advance(sum(task.rows for task in tasks) - sum(task.rows for task in waiting))
    if waiting:
        runner(waiting, advance)
    return [task.result() for task in tasks]
