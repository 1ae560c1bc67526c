"""`python -m perf_tests.studies.shuffles`: how often a shuffle is called worse than another.

Nothing is timed: orders are drawn with other seeds and compared.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

import click
import grain
import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from rich.console import Console

from netpipe.judge.shuffling import ShuffleComparison, compare_shuffles, describe_shuffle

SIZES: Final = ((200, 8), (1000, 16), (10_000, 50), (20_000, 64))
_SHARDS: Final = 16

Epoch = list[NDArray[np.int64]]
Shuffle = Callable[[Generator, int, int], list[Epoch]]
"""Makes the batches of two epochs from a number of elements and a batch size."""


def split(order: NDArray[np.int64], batch: int) -> Epoch:
    """Return the batches of an epoch; the last one may be smaller."""
    return np.split(order, range(batch, len(order), batch))


def make_uniform(rng: Generator, elements: int, batch: int) -> list[Epoch]:
    """Shuffle both epochs uniformly."""
    return [split(rng.permutation(elements), batch) for _ in range(2)]


def _each_epoch(order: Callable[[Generator, int], NDArray[np.int64]]) -> Shuffle:
    return lambda rng, elements, batch: [split(order(rng, elements), batch) for _ in range(2)]


def _fill_buffer(rng: Generator, elements: int, parts: int) -> NDArray[np.int64]:
    """Replace a random element of a buffer, which holds one of `parts` parts of the source."""
    size = max(2, elements // parts)
    buffer, order = np.arange(size), np.arange(elements)
    for element, slot in enumerate(rng.integers(size, size=elements - size), size):
        order[element - size], buffer[slot] = buffer[slot], element
    order[-size:] = rng.permutation(buffer)
    return order


def _in_shards(
    rng: Generator, elements: int, *, shuffles_shards: bool = False
) -> NDArray[np.int64]:
    shards = np.array_split(np.arange(elements), _SHARDS)
    order = rng.permutation(_SHARDS) if shuffles_shards else range(_SHARDS)
    return np.concatenate([rng.permutation(shards[shard]) for shard in order])


def _in_blocks(rng: Generator, elements: int, batch: int) -> list[Epoch]:
    batches = split(np.arange(elements), batch)
    return [[batches[number] for number in rng.permutation(len(batches))] for _ in range(2)]


def _take_turns(_: Generator, elements: int) -> NDArray[np.int64]:
    readers = np.array_split(np.arange(elements), 5)
    return np.concatenate(
        [part[place : place + 1] for place in range(elements) for part in readers]
    )


def _repeat_a_batch(rng: Generator, elements: int, batch: int) -> list[Epoch]:
    first, second = make_uniform(rng, elements, batch)
    return [first, [*second[:-1], second[0]]]


def _reorder_batches(rng: Generator, elements: int, batch: int) -> list[Epoch]:
    first, _ = make_uniform(rng, elements, batch)
    return [first, [rng.permutation(first[number]) for number in rng.permutation(len(first))]]


def _forget_the_second(rng: Generator, elements: int, batch: int) -> list[Epoch]:
    return [make_uniform(rng, elements, batch)[0], split(np.arange(elements), batch)]


def _use_grain(rng: Generator, elements: int, batch: int) -> list[Epoch]:
    dataset = grain.MapDataset.range(elements).shuffle(int(rng.integers(2**32))).repeat(2)
    order = np.array([dataset[index] for index in range(2 * elements)])
    return [split(epoch, batch) for epoch in np.split(order, 2)]


def shorten(shuffle: Shuffle) -> Shuffle:
    """Read only the first batches of each epoch: half of a shard, but at least 100 elements."""

    def make(rng: Generator, elements: int, batch: int) -> list[Epoch]:
        batches = -(-max(100, elements // (2 * _SHARDS)) // batch)
        return [epoch[:batches] for epoch in shuffle(rng, elements, batch)]

    return make


PLANTED: Final[Mapping[str, Shuffle]] = {
    "shuffle removed": _each_epoch(lambda _, elements: np.arange(elements)),
    "buffer of a hundredth": _each_epoch(partial(_fill_buffer, parts=100)),
    "buffer of one shard": _each_epoch(partial(_fill_buffer, parts=_SHARDS)),
    "shuffle within a shard": _each_epoch(_in_shards),
    "shards shuffled, and within": _each_epoch(partial(_in_shards, shuffles_shards=True)),
    "shuffle after the batch": _in_blocks,
    "five readers without a shuffle": _each_epoch(_take_turns),
    "with replacement": _each_epoch(lambda rng, elements: rng.integers(0, elements, elements)),
    "a repeated batch": _repeat_a_batch,
    "same seed in both epochs": lambda *given: make_uniform(*given)[:1] * 2,
    "first epoch's batches again, in another order": _reorder_batches,
    "second epoch without a shuffle": _forget_the_second,
}
"""Shuffles that are worse than a uniform one."""

SEEN_EARLY: Final = ("shuffle removed", "buffer of one shard", "shuffle within a shard")

PARTLY: Final[Mapping[str, Shuffle]] = {
    "buffer of one shard": PLANTED["buffer of one shard"],
    "shards shuffled, and within": PLANTED["shards shuffled, and within"],
    "Grain's shuffle": _use_grain,
}
"""Shuffles that are not quite uniform, and do not become worse by another seed."""


def compare(then: Shuffle, now: Shuffle, seed: int, elements: int, batch: int) -> ShuffleComparison:
    """Compare two shuffles of a source."""
    rng = np.random.default_rng(seed)
    orders = [shuffle(rng, elements, batch) for shuffle in (then, now)]
    return compare_shuffles(*(describe_shuffle(order, elements) for order in orders))


def make_row(name: str, then: Shuffle, now: Shuffle, seeds: int) -> str:
    """Return a row of a table in Markdown: how often `now` is called worse than `then`."""
    counts, figures = [], Counter[str]()
    for size, batch in SIZES:
        found = [compare(then, now, seed, size, batch) for seed in range(seeds)]
        counts.append(f"{sum(one.outcome == 'WORSE' for one in found)} of {seeds}")
        figures.update(figure for one in found for figure in one.worse)
    usual = [figure for figure, count in figures.items() if 2 * count > seeds * len(SIZES)]
    return f"| {name} | {' | '.join(counts)} | {', '.join(usual)} |"


@click.command()
@click.option("--seeds", default=1000, show_default=True, help="Comparisons of uniform shuffles.")
@click.option("--others", default=100, show_default=True, help="Comparisons of each other kind.")
def main(seeds: int, others: int) -> None:
    """Compare shuffles of each kind, and print a table for each question."""
    removed = PLANTED["shuffle removed"]
    tables: dict[str, list[tuple[str, Shuffle, Shuffle, int]]] = {
        "uniform before and after": [
            ("whole epochs", make_uniform, make_uniform, seeds),
            ("first batches", shorten(make_uniform), shorten(make_uniform), seeds),
        ],
        "uniform before, now": [
            (name, make_uniform, each, others) for name, each in PLANTED.items()
        ],
        "uniform before, first batches of": [
            (name, shorten(make_uniform), shorten(PLANTED[name]), others) for name in SEEN_EARLY
        ],
        "before and after, with other seeds": [
            (name, each, each, others) for name, each in PARTLY.items()
        ],
        "shuffle removed, before": [(name, each, removed, others) for name, each in PARTLY.items()],
    }
    console = Console(soft_wrap=True, highlight=False)
    for title, rows in tables.items():
        sizes = " | ".join(f"{size:,} in batches of {batch}" for size, batch in SIZES)
        console.print(f"\n| {title} | {sizes} | usual figures |\n|---|{'--:|' * len(SIZES)}---|")
        for row in rows:
            console.print(make_row(*row))


if __name__ == "__main__":
    main()
