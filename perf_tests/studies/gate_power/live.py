"""Sessions of the original and the slowed pipeline, taken in turns and kept in a file."""

import gzip
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from netpipe.errors import InputError
from netpipe.jobs.parent import CHILD_COMMAND, run_measurement
from netpipe.jobs.targets import name_targets
from netpipe.measuring.interleaving import order_of_round
from netpipe.measuring.measure_request import MeasureRequest
from netpipe.results.measurement import Measurement, Rounds, parse_measurement
from perf_tests.studies.gate_power.slowdowns import Slowdown


@dataclass(frozen=True)
class Session:
    """One session, and its slowdown."""

    slowdown: Slowdown
    measurement: Measurement


def measure_session(slowdown: Slowdown, budget_s: float) -> Session:
    """Measure once, in a fresh process."""
    name = f"{slowdown.kind}_{slowdown.doses}"
    module = "perf_tests.studies.gate_power.slowdowns"
    targets = name_targets(loader=f"{module}:loader_{name}", step=f"{module}:step_{name}")
    request = MeasureRequest(targets=targets, budget_s=budget_s)
    return Session(slowdown, run_measurement(CHILD_COMMAND, request))


def measure_in_turns(
    trials: Sequence[tuple[Slowdown, Slowdown]], cycles: int, budget_s: float
) -> Iterator[Session]:
    """Measure both sides of every trial in turns; they take turns in coming first."""
    for cycle in range(cycles):
        for trial in trials:
            for slowdown in order_of_round(trial, cycle):
                yield measure_session(slowdown, budget_s)


def append_session(path: Path, session: Session) -> None:
    """Append a session to a file, without the rounds and turns, which would make it large."""
    slim = replace(session.measurement, rounds=Rounds(), turns=())
    line = json.dumps({"slowdown": asdict(session.slowdown), "measurement": slim.to_document()})
    with gzip.open(path, "at", encoding="utf-8") as stream:
        stream.write(line + "\n")


def read_sessions(path: Path) -> tuple[Session, ...]:
    """Read a file of sessions, in the order in which they were taken.

    Raises:
        InputError: The file is missing or has other contents.
    """
    if not path.exists():
        raise InputError(path, "--sessions", "be a file of sessions", "none", "Use --live 20")
    try:
        with gzip.open(path, "rt", encoding="utf-8") as stream:
            documents: list[dict[str, Any]] = [json.loads(line) for line in stream]
        return tuple(
            Session(Slowdown(**entry["slowdown"]), parse_measurement(entry["measurement"], path))
            for entry in documents
        )
    except (OSError, EOFError, ValueError, KeyError, TypeError) as error:
        raise InputError(path, "--sessions", "hold sessions, one a line", repr(error)) from error
