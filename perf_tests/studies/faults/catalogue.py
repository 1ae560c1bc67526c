"""All cases, by family."""

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Final

from perf_tests.studies.faults.cases import Case
from perf_tests.studies.faults.families import (
    controls,
    loading,
    machine,
    memory,
    resources,
    stalls,
    starts,
    storage,
    syncs,
)

CASES: Final = (
    *loading.CASES,
    *resources.CASES,
    *stalls.CASES,
    *syncs.CASES,
    *machine.CASES,
    *storage.CASES,
    *starts.CASES,
    *memory.CASES,
    *controls.CASES,
)


def find(name: str) -> Case:
    """Return the case with this name.

    Raises:
        KeyError: There is none.
    """
    return {case.name: case for case in CASES}[name]


def select_cases(patterns: Sequence[str]) -> tuple[Case, ...]:
    """Return the cases that match any pattern; without patterns, all cases.

    A pattern with a slash must match family and name, as `slow-start/*` does.

    Raises:
        ValueError: A pattern matches no case.
    """

    def matches(case: Case, pattern: str) -> bool:
        name = f"{case.family}/{case.name}" if "/" in pattern else case.name
        return fnmatchcase(name, pattern)

    for pattern in patterns:
        if not any(matches(case, pattern) for case in CASES):
            names = ", ".join(f"{case.family}/{case.name}" for case in CASES)
            raise ValueError(f"must match a case; found {pattern!r}. There are {names}")
    wanted = patterns or ("*",)
    return tuple(case for case in CASES if any(matches(case, pattern) for pattern in wanted))
