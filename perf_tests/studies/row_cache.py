"""`python -m perf_tests.studies.row_cache FOLDER...`: the gain of keeping rows in memory.

For each folder of data, batches are made with and without a budget, in turns, in one thread.
"""

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from statistics import median

import click
import grain
from rich.console import Console

from netpipe.workload.config import PipelineConfig
from netpipe.workload.pipeline import sequences_of_batches

_CONFIG = PipelineConfig(sequence_length=1024, batch_size=128)
_WARM_UP_BATCHES = 3
_ALONE = grain.ReadOptions(num_threads=0, prefetch_buffer_size=0)


def measure(data: Path, budget_mb: int, batches: int) -> tuple[float, float]:
    """Return the tokens per CPU second, and the CPU seconds until the first batch can be made."""
    opened_s = time.process_time()
    dataset = sequences_of_batches(data, replace(_CONFIG, row_cache_mb=budget_mb))
    opened_s = time.process_time() - opened_s
    iterator = iter(dataset.to_iter_dataset(_ALONE))
    for _ in range(_WARM_UP_BATCHES):
        next(iterator)
    began_s = time.process_time()
    tokens = sum(int(next(iterator)["segment_tokens"].sum()) for _ in range(batches))
    return tokens / (time.process_time() - began_s), opened_s


def format_row(name: str, values: list[tuple[float, float]]) -> str:
    """Write the median, the lowest and the highest of several runs as a row of a table."""
    speeds = sorted(speed / 1e6 for speed, _ in values)
    spread = f"{median(speeds):.1f} M ({speeds[0]:.1f} to {speeds[-1]:.1f})"
    return f"| {name} | {spread} | {median(opened for _, opened in values):.2f} s |"


def make_table(
    folders: tuple[Path, ...], budget_mb: int, rounds: int, batches: int
) -> Iterator[str]:
    """Measure in turns, and yield the rows of a table in Markdown."""
    sides = [(folder, budget) for folder in folders for budget in (0, budget_mb)]
    found: dict[tuple[Path, int], list[tuple[float, float]]] = {side: [] for side in sides}
    for number in range(rounds):
        for side in sides[:: -1 if number % 2 else 1]:
            found[side].append(measure(*side, batches))
    yield "| data, budget | tokens per CPU second | CPU seconds to open |"
    yield "|---|--:|--:|"
    for (folder, budget), values in found.items():
        yield format_row(f"{folder.name}, {budget} MiB", values)


@click.command()
@click.argument("folders", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--budget", default=1024, show_default=True, help="MiB of memory.")
@click.option("--rounds", default=5, show_default=True)
@click.option("--batches", default=40, show_default=True, help="Batches of each run.")
def main(folders: tuple[Path, ...], budget: int, rounds: int, batches: int) -> None:
    """Make batches with and without a budget, and print the cost of each."""
    for line in make_table(folders, budget, rounds, batches):
        Console(soft_wrap=True, highlight=False).print(line)


if __name__ == "__main__":
    main()
