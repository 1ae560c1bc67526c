"""`python -m perf_tests.studies.diagnosis.turns PIPELINE...`: time pipelines in turns."""

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Final

import cattrs

from netpipe.clock import Clock
from netpipe.jobs.processes import busy_elsewhere_fraction, read_host_cpu
from netpipe.linting.experiments.variant_comparison import MeasureBlock, Pace, measure_block
from netpipe.measuring.interleaving import Interleaved, interleave
from perf_tests.studies.children import run_for_json
from perf_tests.studies.diagnosis.pipelines import Pipeline
from perf_tests.studies.diagnosis.subject import describe, parse_pipeline

ROUNDS: Final = 3
_BLOCK: Final = Pace(1.2)
# Seconds of one round of one pipeline.
_LIMIT_S: Final = 30.0

Seconds = tuple[float, ...]
"""Seconds per batch of each round."""


@dataclass(frozen=True)
class Timed:
    """The times of pipelines that were measured in turns.

    Attributes:
        s_per_batch: The times of each pipeline.
        busy_elsewhere_fraction: Fraction of the machine's CPU time that other programs took.
    """

    s_per_batch: tuple[Seconds, ...]
    busy_elsewhere_fraction: float


def time_pipelines(pipelines: Sequence[Pipeline]) -> Timed:
    """Time one or more pipelines in turns in a fresh process.

    Raises:
        ChildError: One of them failed, or took too long.
    """
    arguments = ["-m", __name__, *map(describe, pipelines)]
    document = run_for_json(arguments, {}, _LIMIT_S * ROUNDS * len(pipelines))
    return cattrs.structure(document, Timed)


def time_loaders(
    loaders: Sequence[Callable[[], Any]],
    rounds: int = ROUNDS,
    measure: MeasureBlock | None = None,
) -> list[Seconds]:
    """Return the seconds per batch of each loader, measured in turns."""
    measure = measure or partial(measure_block, clock=Clock())

    def s_per_batch(number: int) -> float:
        block = measure(loaders[number], _BLOCK)
        return block.s_per_element * block.elements_per_batch

    def wants_round(done: Interleaved[int, float]) -> bool:
        return len(done.rounds) < rounds

    done = interleave(range(len(loaders)), s_per_batch, wants_round)
    return [tuple(done.results(number)) for number in range(len(loaders))]


def main(descriptions: Sequence[str]) -> None:
    """Time the described pipelines and print the result."""
    from netpipe.grain_access.worker_start import let_grain_start_workers

    let_grain_start_workers()
    loaders = [parse_pipeline(text).dataset for text in descriptions]
    before = read_host_cpu()
    seconds = time_loaders(loaders)
    timed = Timed(tuple(seconds), busy_elsewhere_fraction(before, read_host_cpu()))
    print(json.dumps(asdict(timed)), flush=True)  # noqa: T201  # the parent reads it


if __name__ == "__main__":
    main(sys.argv[1:])
