"""`python -m perf_tests.studies.diagnosis.turns PIPELINE...`: time pipelines in turns."""

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import cattrs

from netpipe.clock import Clock, MonotonicClock
from netpipe.linting.experiments.blocks import MeasureBlock, Pace, measure_block
from netpipe.session.processes import busy_elsewhere_fraction, read_host_cpu
from perf_tests.studies.diagnosis.children import run_for_json
from perf_tests.studies.diagnosis.pipelines import Pipeline
from perf_tests.studies.diagnosis.subject import described, pipeline_from

ROUNDS: Final = 3
_BLOCK: Final = Pace(1.2)
_LIMIT_S: Final = 30.0  # for a round of a pipeline

Seconds = tuple[float, ...]
"""Of a batch, one for each round."""


@dataclass(frozen=True)
class Timed:
    """What timing pipelines in turns showed.

    Attributes:
        s_per_batch: Of each pipeline, in their order.
        busy_elsewhere_fraction: Of the machine's CPU time, what other programs took meanwhile.
    """

    s_per_batch: tuple[Seconds, ...]
    busy_elsewhere_fraction: float


def time_pipelines(pipelines: Sequence[Pipeline]) -> Timed:
    """Time pipelines in turns in a fresh process.

    Args:
        pipelines: At least one.

    Raises:
        ChildError: One of them failed, or took too long.
    """
    arguments = ["-m", __name__, *map(described, pipelines)]
    document = run_for_json(arguments, {}, _LIMIT_S * ROUNDS * len(pipelines))
    return cattrs.structure(document, Timed)


def time_loaders(
    loaders: Sequence[Callable[[], Any]],
    rounds: int = ROUNDS,
    clock: Clock | None = None,
    measure: MeasureBlock | None = None,
) -> list[Seconds]:
    """Time a block of each loader, there and back (A B B A): a slower machine favours none."""
    clock = clock or MonotonicClock()
    block = measure or (lambda loader, pace: measure_block(loader, pace, clock))
    seconds: list[list[float]] = [[] for _ in loaders]
    for number in range(rounds):
        for place in list(range(len(loaders)))[:: -1 if number % 2 else 1]:
            seen = block(loaders[place], _BLOCK)
            seconds[place].append(seen.s_per_element * seen.elements_per_batch)
    return [tuple(each) for each in seconds]


def main(descriptions: Sequence[str]) -> None:
    """Time the pipelines described and print what their batches took."""
    from netpipe.grain_workers import let_grain_start_workers

    let_grain_start_workers()
    loaders = [pipeline_from(one).dataset for one in descriptions]
    before = read_host_cpu()
    seconds = time_loaders(loaders)
    timed = Timed(tuple(seconds), busy_elsewhere_fraction(before, read_host_cpu()))
    print(json.dumps(asdict(timed)), flush=True)  # noqa: T201  # what it is for


if __name__ == "__main__":
    main(sys.argv[1:])
