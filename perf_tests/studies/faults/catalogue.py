"""All cases, by family."""

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Final

from perf_tests.studies.faults.cases import Case
from perf_tests.studies.faults.families import controls, loading, machine, resources, stalls, syncs

CASES: Final = (
    *loading.CASES,
    *resources.CASES,
    *stalls.CASES,
    *syncs.CASES,
    *machine.CASES,
    *controls.CASES,
)


def find(name: str) -> Case:
    """Return the case of a name.

    Raises:
        KeyError: There is none.
    """
    return {case.name: case for case in CASES}[name]


def select_cases(patterns: Sequence[str]) -> tuple[Case, ...]:
    """Return the cases whose names match any pattern, all for none.

    Raises:
        ValueError: A pattern matches no case.
    """
    for pattern in patterns:
        if not any(fnmatchcase(case.name, pattern) for case in CASES):
            names = ", ".join(case.name for case in CASES)
            raise ValueError(f"must match a case; found {pattern!r}. There are {names}")
    wanted = patterns or ("*",)
    return tuple(
        case for case in CASES if any(fnmatchcase(case.name, pattern) for pattern in wanted)
    )
