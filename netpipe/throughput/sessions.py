"""Throughput measured in fresh processes: our pipeline and other loaders, in turns."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import count, product
from math import ceil
from pathlib import Path
from typing import Any, Final

from netpipe.duets.parent import RemoteTimer, Side, open_sides, receive_all
from netpipe.errors import MisuseError
from netpipe.jobs import targets
from netpipe.jobs.parent import CHILD_COMMAND, run_session
from netpipe.measuring.interleaving import interleave, order_of_round
from netpipe.throughput.figures import Tally
from netpipe.throughput.run import longest_s
from netpipe.throughput.throughput_request import ThroughputRequest
from netpipe.workload.config import PipelineConfig
from netpipe.workload.tokens.batches import BATCH_BYTES_PER_TOKEN, SEQUENCE_BYTES_PER_TOKEN

# The imports, the first batch, and the end of a session.
_START_S: Final = 4.0
# What a loader with slow batches may take beyond one with quick batches.
_SLOW_BATCHES_S: Final = 60.0
_TURN_S: Final = 0.5


@dataclass(frozen=True)
class Combination:
    """This repository's pipeline on some data, with one choice of its settings."""

    data: Path
    pipeline: PipelineConfig

    @property
    def label(self) -> str:
        """Its settings, in short."""
        workers = self.pipeline.workers
        return f"batch {self.pipeline.batch_size}, {workers} worker{'s' * (workers != 1)}"

    @property
    def settings(self) -> dict[str, Any]:
        """The fields of a request to measure it."""
        arguments = (str(self.data), asdict(self.pipeline))
        loader = targets.Target("netpipe.workload.pipeline", "build_from_settings", arguments)
        return {"targets": {"loader": loader}}

    @property
    def waiting_bytes(self) -> int:
        """Bytes of one waiting batch; with workers, of the sequences it will be made of."""
        pipeline = self.pipeline
        per_token = SEQUENCE_BYTES_PER_TOKEN if pipeline.workers else BATCH_BYTES_PER_TOKEN
        return per_token * pipeline.batch_size * pipeline.sequence_length

    @property
    def finished_bytes(self) -> int:
        """About how many bytes its finished batches take while they wait."""
        pipeline = self.pipeline
        return max(1, pipeline.workers) * pipeline.worker_buffer_batches * self.waiting_bytes

    def with_workers(self, workers: int) -> "Combination":
        """Return the same with another number of workers."""
        return replace(self, pipeline=replace(self.pipeline, workers=workers))


@dataclass(frozen=True)
class Target:
    """Any loader, by its target; `workers` is None where they are its own."""

    target: str
    workers: int | None = None
    # What its finished batches take shows in its trials.
    finished_bytes: int = 0

    def with_workers(self, workers: int) -> "Target":
        """Return the same with another number of workers."""
        return replace(self, workers=workers)

    @property
    def label(self) -> str:
        """Its target, and the workers that it is given."""
        if self.workers is None:
            return self.target
        return f"{self.target}, {self.workers} worker{'s' * (self.workers != 1)}"

    @property
    def settings(self) -> dict[str, Any]:
        """The fields of a request to measure it."""
        return {"targets": targets.name_targets(loader=self.target), "workers": self.workers}


Subject = Combination | Target


def data_of(subject: Subject) -> Path | None:
    """Return the data of this repository's pipeline."""
    return subject.data if isinstance(subject, Combination) else None


def combinations(
    data: Path, pipeline: PipelineConfig, batch_sizes: Sequence[int], workers: Sequence[int]
) -> list[Combination]:
    """Return every batch size with every number of workers, on data that repeat without end.

    An empty sequence stands for the pipeline's own setting.

    Raises:
        InputError: A setting is outside its range.
    """
    choices = product(batch_sizes or [pipeline.batch_size], workers or [pipeline.workers])
    return [
        Combination(data, replace(pipeline, batch_size=size, workers=count, epochs=None))
        for size, count in dict.fromkeys(choices)
    ]


def measure_in_turns(
    subjects: Sequence[Subject], rounds: int, seconds: float, say: Callable[[int, Subject], None]
) -> list[tuple[Tally, ...]]:
    """Measure each subject once a round, each time in a fresh process; return its runs in order.

    `seconds` is how long each run measures the steady state. `say` is called before each run with
    the number of finished runs and the subject.

    Raises:
        MisuseError: A loader is not what it must be, or its data are not.
        SessionError: A run crashed, hung or ran out of time.
    """
    numbers = count()

    def measure(index: int) -> Tally:
        say(next(numbers), subjects[index])
        return measure_once(subjects[index], seconds)

    indices = range(len(subjects))
    done = interleave(indices, measure, lambda done: len(done.rounds) < rounds)
    return [tuple(done.results(index)) for index in indices]


def measure_duets(
    subjects: Sequence[Subject],
    other: Target,
    rounds: int,
    seconds: float,
    say: Callable[[int, Subject], None],
    same_batches: int = 0,
) -> list[tuple[tuple[Tally, Tally], ...]]:
    """Measure each subject beside another loader once a round; return the runs of both.

    Both run in fresh processes at the same time, and take turns of half a second: one rests with
    full buffers while the other is measured. `say` is that of `measure_in_turns`.

    Raises as `measure_in_turns` does, and MisuseError where a subject is a target too and its first
    batch has other arrays than that of `other`, or where any of the first `same_batches` differ.
    """
    pairs: list[list[tuple[Tally, Tally]]] = [[] for _ in subjects]
    numbers = count()
    for number in range(rounds):
        for subject, measured in zip(subjects, pairs, strict=True):
            say(next(numbers), subject)
            measured.append(_run_duet((subject, other), seconds, same_batches, number))
    return [tuple(measured) for measured in pairs]


def _run_duet(
    subjects: tuple[Subject, Target], seconds: float, same_batches: int, number: int
) -> tuple[Tally, Tally]:
    sides = [
        Side(each.label, CHILD_COMMAND, _request(each, seconds, 2 * seconds, same_batches))
        for each in subjects
    ]
    turns = ceil(seconds / _TURN_S)
    orders = [*[("take_turn", seconds / turns)] * turns, ("tally",)]
    with open_sides(sides) as timers:
        _require_same(*subjects, *receive_all(timers))
        for turn, order in enumerate(orders, start=number):
            answers = dict(_ask(timers, order, turn))
        ours, others = (answers[timer] for timer in timers)
    return ours, others


def _ask(
    timers: Sequence[RemoteTimer], order: tuple[Any, ...], turn: int
) -> Iterator[tuple[RemoteTimer, Any]]:
    """Let one side after the other obey; which goes first changes."""
    for timer in order_of_round(timers, turn):
        timer.send(order)
        (answer,) = receive_all([timer])
        yield timer, answer


def _require_same(
    subject: Subject, other: Target, seen: Mapping[str, Any], other_seen: Mapping[str, Any]
) -> None:
    arrays, other_arrays = seen["arrays"], other_seen["arrays"]
    for name in {**arrays, **other_arrays} if isinstance(subject, Target) else ():
        found, other_found = (each.get(name, "none") for each in (arrays, other_arrays))
        if found != other_found:
            raise MisuseError(
                f"the batches of both loaders must have the same arrays; found {name} as {found} "
                f"from {subject.label} and as {other_found} from {other.label}. Adapt one of them"
            )
    for number, (own, others) in enumerate(
        zip(seen["digests"], other_seen["digests"], strict=True)
    ):
        if own != others:
            raise MisuseError(
                f"batch {number} must have the same contents from {subject.label} and "
                f"{other.label}; found other contents. Adapt one of them, or compare their speed "
                "alone, without --same-batches"
            )


def expected_s(runs: int, seconds: float) -> float:
    """Return about how many seconds the runs will take."""
    return runs * (_START_S + longest_s(seconds) - seconds / 2)


def measure_once(subject: Subject, seconds: float) -> Tally:
    """Measure a subject's steady state in a fresh process; raises as `measure_in_turns` does."""
    return Tally(**run_session(CHILD_COMMAND, _request(subject, seconds, seconds)))


def _request(
    subject: Subject, seconds: float, pulled_s: float, same_batches: int = 0
) -> ThroughputRequest:
    budget_s = longest_s(pulled_s) + _SLOW_BATCHES_S
    return ThroughputRequest(
        seconds=seconds, same_batches=same_batches, budget_s=budget_s, **subject.settings
    )
