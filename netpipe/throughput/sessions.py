"""Throughput of loaders, measured in turns in fresh processes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from math import ceil
from pathlib import Path
from typing import Any, Final

from netpipe.duets.parent import Side, open_sides, receive_all, take_turns
from netpipe.errors import MisuseError
from netpipe.jobs.parent import CHILD_COMMAND, run_session
from netpipe.jobs.targets import Target
from netpipe.judge.reading import Reading, ReadRequest, read_batches
from netpipe.judge.same_data import compare_data
from netpipe.measuring.interleaving import interleave
from netpipe.results.units import format_count
from netpipe.throughput.figures import Tally
from netpipe.throughput.run import longest_s
from netpipe.throughput.throughput_request import ThroughputRequest

# Time for the imports, the first batch and the end of a session.
_START_S: Final = 4.0
# Time that slow batches may add to a run.
_SLOW_BATCHES_S: Final = 60.0
_TURN_S: Final = 0.5


@dataclass(frozen=True)
class Subject:
    """A loader with some settings, measured in its own session.

    The data and the sizes are known of this repository's pipeline only.

    Attributes:
        workers: The number of workers; None if the loader chooses its own.
        limits: The `batch_limit_s` and the `start_limit_s` of its sessions, if given.
    """

    target: Target
    workers: int | None = None
    data: Path | None = None
    batch_size: int | None = None
    sequence_length: int | None = None
    limits: Mapping[str, Any] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """The target or the batch size, and the number of workers, as text."""
        name = str(self.target) if self.data is None else f"batch {self.batch_size}"
        if self.workers is None:
            return name
        return f"{name}, {format_count(self.workers, 'worker')}"


def measure_in_turns(
    subjects: Sequence[Subject],
    rounds: int,
    seconds: float,
    report_progress: Callable[[int, Subject], None],
) -> list[tuple[Tally, ...]]:
    """Measure each subject once a round, each time in a fresh process; return each one's runs.

    A run measures `seconds` of steady state. Before each run, `report_progress` is called with the
    number of finished runs and the subject.
    """
    numbers = count()

    def measure(index: int) -> Tally:
        report_progress(next(numbers), subjects[index])
        return measure_once(subjects[index], seconds)

    indices = range(len(subjects))
    done = interleave(indices, measure, lambda done: len(done.rounds) < rounds)
    return [tuple(done.results(index)) for index in indices]


def measure_duets(
    subjects: Sequence[Subject],
    other: Subject,
    rounds: int,
    seconds: float,
    report_progress: Callable[[int, Subject], None],
    same_batches: int = 0,
) -> list[tuple[tuple[Tally, Tally], ...]]:
    """Measure each subject beside another loader once a round; return the runs of both.

    Both live in fresh processes at the same time, and take turns of half a second: one rests with
    full buffers while the other is measured. `report_progress` is called as in `measure_in_turns`.

    Raises:
        MisuseError: The first batches of two targets have different arrays, or one of the first
            `same_batches` batches differs between the loaders.
    """
    pairs: list[list[tuple[Tally, Tally]]] = [[] for _ in subjects]
    numbers = count()
    read = [_read(each, same_batches) for each in (other, *subjects) if same_batches]
    for subject, reading in zip(subjects, read[1:], strict=False):
        found = compare_data(reading, read[0])
        if found.status != "fine":
            raise MisuseError(
                f"{subject.label} and {other.label} must give the same first {same_batches} "
                f"batches; found {found.reason}. Adapt one of them, or omit --same-batches"
            )
    for number in range(rounds):
        for subject, measured in zip(subjects, pairs, strict=True):
            report_progress(next(numbers), subject)
            measured.append(_run_duet((subject, other), seconds, number))
    return [tuple(measured) for measured in pairs]


def _read(subject: Subject, batches: int) -> Reading:
    settings = {"workers": subject.workers, "batches": batches, **subject.limits}
    request = ReadRequest(targets={"loader": subject.target}, has_variants=False, **settings)
    return read_batches(Side(subject.label, CHILD_COMMAND, request))


def _run_duet(
    subjects: tuple[Subject, Subject], seconds: float, number: int
) -> tuple[Tally, Tally]:
    sides = [
        Side(each.label, CHILD_COMMAND, _request(each, seconds, 2 * seconds)) for each in subjects
    ]
    turns = ceil(seconds / _TURN_S)
    orders = [*[("take_turn", seconds / turns)] * turns, ("tally",)]
    with open_sides(sides) as timers:
        _require_same(*subjects, *receive_all(timers))
        for turn, order in enumerate(orders, start=number):
            tallies = take_turns(timers, order, turn)
    return tallies


def _require_same(
    subject: Subject, other: Subject, arrays: Mapping[str, str], other_arrays: Mapping[str, str]
) -> None:
    for name in {**arrays, **other_arrays} if subject.data is None else ():
        found, other_found = (each.get(name, "none") for each in (arrays, other_arrays))
        if found != other_found:
            raise MisuseError(
                f"the batches of both loaders must have the same arrays; found {name} as {found} "
                f"from {subject.label} and as {other_found} from {other.label}. Adapt one of them"
            )


def expected_s(runs: int, seconds: float) -> float:
    """Return the approximate total duration of the runs in seconds."""
    return runs * (_START_S + longest_s(seconds) - 2.5 * seconds)


def measure_once(subject: Subject, seconds: float) -> Tally:
    """Return the counts of a subject's steady state, measured in a fresh process."""
    return Tally(**run_session(CHILD_COMMAND, _request(subject, seconds, seconds)))


def _request(subject: Subject, seconds: float, pulled_s: float) -> ThroughputRequest:
    budget_s = longest_s(pulled_s) + _SLOW_BATCHES_S
    return ThroughputRequest(
        targets={"loader": subject.target},
        workers=subject.workers,
        seconds=seconds,
        budget_s=budget_s,
        **subject.limits,
    )
