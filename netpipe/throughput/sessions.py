"""Throughput measured in fresh processes: our pipeline and other loaders, in turns."""

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import count, product
from pathlib import Path
from typing import Final

from netpipe.config import PipelineConfig
from netpipe.data.tokens.batches import BATCH_BYTES_PER_TOKEN, SEQUENCE_BYTES_PER_TOKEN
from netpipe.measuring.interleaving import interleave
from netpipe.session.parent import run_session
from netpipe.session.request import SessionRequest
from netpipe.throughput.figures import Tally
from netpipe.throughput.run import longest_s

# The imports, the first batch, and the end of a session.
_START_S: Final = 4.0
# What a loader with slow batches may take beyond one with quick batches.
_SLOW_BATCHES_S: Final = 60.0


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
    def words(self) -> list[str]:
        """The arguments of the session that measures it."""
        return ["--data", str(self.data), "--pipeline", json.dumps(asdict(self.pipeline))]

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

    @property
    def memory_estimate(self) -> str:
        """The same with its factors, as a line for people."""
        workers, ahead = self.pipeline.workers, self.pipeline.worker_buffer_batches
        makers = f"{workers} worker{'s' * (workers != 1)}" if workers else "1 thread"
        return (
            f"{makers} x {ahead} batches x {self.waiting_bytes / 1e6:.2g} MB = "
            f"{self.finished_bytes / 1e6:.2g} MB of finished batches"
        )


@dataclass(frozen=True)
class Foreign:
    """Another loader; its label is its target, as `netpipe measure --loader` takes it."""

    label: str

    @property
    def words(self) -> list[str]:
        """The arguments of the session that measures it."""
        return ["--target", self.label]


Subject = Combination | Foreign


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


def expected_s(subjects: int, rounds: int, seconds: float) -> float:
    """Return about how many seconds the rounds will take."""
    return subjects * rounds * (_START_S + longest_s(seconds) - seconds / 2)


def measure_once(subject: Subject, seconds: float) -> Tally:
    """Measure a subject's steady state in a fresh process; raises as `measure_in_turns` does."""
    command = [sys.executable, "-P", "-m", "netpipe.throughput.child", "--seconds", str(seconds)]
    request = SessionRequest("throughput", budget_s=longest_s(seconds) + _SLOW_BATCHES_S)
    return Tally(**run_session([*command, *subject.words], request))
