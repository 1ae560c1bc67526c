"""The targets of a session: they build the case that the environment variable names."""

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any, Final

from perf_tests.studies.faults.cases import Case
from perf_tests.studies.faults.catalogue import find
from perf_tests.studies.faults.parts.batches import Batch
from perf_tests.studies.faults.parts.loops import State, Step

VARIABLE: Final = "NETPIPE_FAULT"


def describe(case: Case, values: Mapping[str, float]) -> str:
    """Return the value of the environment variable for a case and its values."""
    return json.dumps({"case": case.name, "values": dict(values)})


@cache
def read_case() -> tuple[Case, Mapping[str, float]]:
    """Return the case that this process was started for, and its values."""
    document = json.loads(os.environ[VARIABLE])
    return find(document["case"]), document["values"]


def loader() -> Iterable[Batch]:
    """Make the case's loader."""
    case, values = read_case()
    return case.loader(values)


def step() -> tuple[State, Step]:
    """Make the case's real step."""
    case, values = read_case()
    assert case.step is not None, f"{case.name} has no step of its own"
    return case.step(values)


def loop(batches: Iterator[Batch], state: State, step: Step) -> Any:
    """Run the case's loop."""
    case, values = read_case()
    assert case.loop is not None, f"{case.name} has no loop of its own"
    case.loop(values)(batches, state, step)
