"""Combinations of pipeline settings that `netpipe throughput` measures and compares."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from netpipe.jobs.targets import Target
from netpipe.workload.config import PipelineConfig
from netpipe.workload.tokens.batches import BATCH_BYTES_PER_TOKEN, SEQUENCE_BYTES_PER_TOKEN

if TYPE_CHECKING:
    import grain


@dataclass(frozen=True)
class Combination:
    """The pipeline with one combination of settings on one data set: a `throughput.Subject`."""

    data: Path
    pipeline: PipelineConfig

    @property
    def label(self) -> str:
        """The batch size and the number of workers, as text."""
        workers = self.pipeline.workers
        return f"batch {self.pipeline.batch_size}, {workers} worker{'s' * (workers != 1)}"

    @property
    def request_fields(self) -> dict[str, Any]:
        """The fields of a request to measure this combination."""
        arguments = (str(self.data), asdict(self.pipeline))
        return {"targets": {"loader": Target(__name__, "load", arguments)}}

    @property
    def settings(self) -> dict[str, str | int | None]:
        """The settings, as the throughput document lists them."""
        names = ("batch_size", "workers", "sequence_length")
        return {"loader": None, **{name: getattr(self.pipeline, name) for name in names}}

    @property
    def waiting_bytes(self) -> int:
        """Bytes of one batch that waits in a buffer; workers hold it as sequences."""
        pipeline = self.pipeline
        per_token = SEQUENCE_BYTES_PER_TOKEN if pipeline.workers else BATCH_BYTES_PER_TOKEN
        return per_token * pipeline.batch_size * pipeline.sequence_length

    @property
    def finished_bytes(self) -> int:
        """Approximate bytes of all finished batches in buffers."""
        pipeline = self.pipeline
        return max(1, pipeline.workers) * pipeline.worker_buffer_batches * self.waiting_bytes

    def with_workers(self, workers: int) -> "Combination":
        """Return this combination with another number of workers."""
        return replace(self, pipeline=replace(self.pipeline, workers=workers))


def combinations(
    data: Path, pipeline: PipelineConfig, batch_sizes: Sequence[int], workers: Sequence[int]
) -> list[Combination]:
    """Return a combination for each batch size and number of workers, on endless data.

    An empty sequence stands for the pipeline's own setting.
    """
    choices = product(batch_sizes or [pipeline.batch_size], workers or [pipeline.workers])
    return [
        Combination(data, replace(pipeline, batch_size=size, workers=count, epochs=None))
        for size, count in dict.fromkeys(choices)
    ]


def load(data: str, pipeline: Mapping[str, Any]) -> "grain.IterDataset":
    """Return the loader of a combination; the session that measures it calls this."""
    from netpipe.workload.pipeline import build

    return build(Path(data), PipelineConfig(**pipeline))
