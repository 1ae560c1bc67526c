"""Combinations of pipeline settings that `netpipe throughput` measures and compares."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from netpipe.jobs.targets import Target
from netpipe.throughput.sessions import Subject
from netpipe.workload.config import PipelineConfig

if TYPE_CHECKING:
    import grain


def combinations(
    data: Path, pipeline: PipelineConfig, batch_sizes: Sequence[int], workers: Sequence[int]
) -> list[Subject]:
    """Return the pipeline with each batch size and number of workers, on endless data.

    An empty sequence stands for the pipeline's own setting.
    """
    subjects = []
    choices = product(batch_sizes or [pipeline.batch_size], workers or [pipeline.workers])
    for size, count in dict.fromkeys(choices):
        endless = asdict(replace(pipeline, batch_size=size, epochs=None))
        target = Target(__name__, "load", (str(data), endless))
        subjects.append(Subject(target, count, data, size, pipeline.sequence_length))
    return subjects


def load(data: str, pipeline: Mapping[str, Any], workers: int) -> "grain.IterDataset":
    """Return the loader of a combination; the session that measures it calls this."""
    from netpipe.workload.pipeline import build

    return build(Path(data), replace(PipelineConfig(**pipeline), workers=workers))
