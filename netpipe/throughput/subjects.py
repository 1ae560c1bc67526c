"""What is measured: combinations of our pipeline's settings, and any other loader."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path
from typing import Final

from netpipe.config import PipelineConfig
from netpipe.data.tokens.batches import BATCH_BYTES_PER_TOKEN, SEQUENCE_BYTES_PER_TOKEN

_MB: Final = 1e6


@dataclass(frozen=True)
class Combination:
    """This repository's pipeline with one choice of its settings.

    Attributes:
        data: What it reads.
        pipeline: Its settings.
    """

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
            f"{makers} x {ahead} batches x {self.waiting_bytes / _MB:.2g} MB = "
            f"{self.finished_bytes / _MB:.2g} MB of finished batches"
        )


@dataclass(frozen=True)
class Foreign:
    """A loader that is not this repository's.

    Attributes:
        target: Its factory, as `netpipe measure --loader` takes it.
    """

    target: str

    @property
    def label(self) -> str:
        """Its target."""
        return self.target

    @property
    def words(self) -> list[str]:
        """The arguments of the session that measures it."""
        return ["--target", self.target]


Subject = Combination | Foreign


def combinations(
    data: Path, pipeline: PipelineConfig, batch_sizes: Sequence[int], workers: Sequence[int]
) -> list[Combination]:
    """Return every batch size with every number of workers, on data that repeat without end.

    Args:
        data: The folder to read.
        pipeline: All other settings.
        batch_sizes: Sequences in a batch; empty for the pipeline's own.
        workers: Worker processes; empty for the pipeline's own.

    Raises:
        InputError: A setting is outside its range.
    """
    choices: Iterable[tuple[int, int]] = product(
        batch_sizes or (pipeline.batch_size,), workers or (pipeline.workers,)
    )
    return [
        Combination(data, replace(pipeline, batch_size=size, workers=count, epochs=None))
        for size, count in dict.fromkeys(choices)
    ]
