"""What is measured: combinations of our pipeline's settings, and somebody else's loader."""

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
        """What a person calls it."""
        workers = self.pipeline.workers
        return f"batch {self.pipeline.batch_size}, {workers} worker{'s' * (workers != 1)}"

    @property
    def words(self) -> list[str]:
        """What the session that measures it is told."""
        return ["--data", str(self.data), "--pipeline", json.dumps(asdict(self.pipeline))]

    @property
    def waiting_bytes(self) -> int:
        """Bytes of one batch while it waits: with workers, of the sequences that it is made of."""
        pipeline = self.pipeline
        per_token = SEQUENCE_BYTES_PER_TOKEN if pipeline.workers else BATCH_BYTES_PER_TOKEN
        return per_token * pipeline.batch_size * pipeline.sequence_length

    @property
    def finished_bytes(self) -> int:
        """About what its finished batches take while they wait."""
        pipeline = self.pipeline
        return max(1, pipeline.workers) * pipeline.worker_buffer_batches * self.waiting_bytes

    @property
    def memory_estimate(self) -> str:
        """About what its finished batches take while they wait, and how that comes about."""
        workers, ahead = self.pipeline.workers, self.pipeline.worker_buffer_batches
        makers = f"{workers} worker{'s' * (workers != 1)}" if workers else "1 thread"
        return (
            f"{makers} x {ahead} batches x {self.waiting_bytes / _MB:.2g} MB = "
            f"{self.finished_bytes / _MB:.2g} MB of finished batches"
        )


@dataclass(frozen=True)
class Foreign:
    """A loader that somebody else makes.

    Attributes:
        target: Names its factory, as `netpipe measure --loader` takes it.
    """

    target: str

    @property
    def label(self) -> str:
        """What a person calls it."""
        return self.target

    @property
    def words(self) -> list[str]:
        """What the session that measures it is told."""
        return ["--target", self.target]


Subject = Combination | Foreign


def combinations(
    data: Path, pipeline: PipelineConfig, batch_sizes: Sequence[int], workers: Sequence[int]
) -> list[Combination]:
    """Return every batch size with every number of workers, on data that never end.

    Args:
        data: What is read.
        pipeline: All other settings.
        batch_sizes: Sequences in a batch; none for those of `pipeline`.
        workers: Worker processes; none for those of `pipeline`.

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
