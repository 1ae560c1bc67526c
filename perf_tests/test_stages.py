"""The stages of the pipeline, each in turns with the plain reference on the same rows.

Both take CPU time of one thread in one process, so a busy machine slows both. A bound is half of
what two shared cores of an Intel Xeon gave: a stage that becomes twice as slow fails.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from statistics import median

import numpy as np
import pytest

from netpipe.data.batches import widen
from netpipe.data.draws import ContextDraws, DrawnRows, read_block
from netpipe.data.order import RowOrder, contexts_per_row
from netpipe.data.packing import likely_contexts, pack
from netpipe.data.sources import open_source
from netpipe.data.tokenizer import encode
from tests.data import reference
from tests.data.reference_loader import pings_of, reference_batches

SEED, TARGET, SEQUENCES, LENGTH = 0, 34, 128, 1024
ROUNDS = 7
PLAIN_CONTEXTS = 6

LEAST_SAMPLING = 25
LEAST_ENCODING = 40
LEAST_PACKING = 60
LEAST_WHOLE = 90
MOST_WIDENING = 8  # of copying the batch


@dataclass(frozen=True)
class Bench:
    """A block of rows as every stage gets it.

    Attributes:
        data: The folder that it is from.
        rows: The block, read.
        likely: About how many contexts fill it.
        tokens: How many it becomes.
    """

    data: Path
    rows: DrawnRows
    likely: int
    tokens: int

    def pack(self) -> dict[str, np.ndarray]:
        """Fill the block's sequences."""
        return pack(
            self.rows,
            seed=SEED,
            target=TARGET,
            sequences=SEQUENCES,
            sequence_length=LENGTH,
            at_first=self.likely,
        )


@pytest.fixture(scope="module")
def bench(data_directory: Path) -> Bench:
    """Return the first block of 128 sequences of 1024 tokens of the data."""
    source = open_source(data_directory, "train")
    sizes = source.row_measurements
    likely = likely_contexts(sizes, target=TARGET, sequences=SEQUENCES, sequence_length=LENGTH)
    blocks = max(1, int(contexts_per_row(sizes).sum()) // likely)
    order = RowOrder(sizes, seed=SEED, blocks_per_epoch=blocks, blocks=1)
    bench = Bench(data_directory, read_block(source, order[0]), likely, 0)
    tokens = int(bench.pack()["segment_tokens"].sum())
    return Bench(bench.data, bench.rows, likely, tokens)


def test_sampling(bench: Bench) -> None:
    """Drawing a context costs a small part of what it costs one measurement at a time."""
    plain = _plain_contexts(bench)
    assert _times_as_fast(
        lambda: ContextDraws(bench.rows, seed=SEED, target=TARGET).take(bench.likely),
        bench.likely,
        lambda: [
            reference.sample(pings, seed=SEED, place=place, target=TARGET) for pings, place in plain
        ],
        len(plain),
    ) > LEAST_SAMPLING


def test_encoding(bench: Bench) -> None:
    """So does making its tokens."""
    contexts = ContextDraws(bench.rows, seed=SEED, target=TARGET).take(bench.likely)
    plain = [
        reference.sample(pings, seed=SEED, place=place, target=TARGET)
        for pings, place in _plain_contexts(bench)
    ]
    assert _times_as_fast(
        lambda: encode(contexts),
        len(encode(contexts).tokens),
        lambda: [reference.encode(told) for told in plain],
        sum(len(reference.encode(told)) for told in plain),
    ) > LEAST_ENCODING


def test_packing(bench: Bench) -> None:
    """Sampling, encoding and packing together cost a small part of the first two done plainly."""
    plain = _plain_contexts(bench)

    def encoded() -> int:
        return sum(
            len(reference.encode(reference.sample(pings, seed=SEED, place=place, target=TARGET)))
            for pings, place in plain
        )

    assert _times_as_fast(bench.pack, bench.tokens, encoded, encoded()) > LEAST_PACKING


def test_widening(bench: Bench) -> None:
    """Making the batch, in the training process, costs a few times what copying it costs."""
    sequences = bench.pack()
    batch = widen(sequences)
    copied_per_widened = _times_as_fast(
        lambda: widen(sequences), 1, lambda: [array.copy() for array in batch.values()], 1
    )
    assert copied_per_widened > 1 / MOST_WIDENING


def test_rows_on_disk_to_a_batch(bench: Bench) -> None:
    """The whole way to a batch costs a small part of the plain way to one of a few sequences."""
    source = open_source(bench.data, "train")
    plain = reference_batches(bench.data, LENGTH, PLAIN_CONTEXTS)

    def batch() -> None:
        rows = read_block(source, bench.rows.block)
        widen(Bench(bench.data, rows, bench.likely, bench.tokens).pack())

    tokens = [int((next(plain)["inputs_segmentation"] > 0).sum()) for _ in range(3)]
    assert _times_as_fast(
        batch, bench.tokens, lambda: next(plain), round(median(tokens))
    ) > LEAST_WHOLE


def _plain_contexts(
    bench: Bench,
) -> list[tuple[list[reference.Ping], tuple[int, int, int]]]:
    """Return the first contexts that are drawn, as the reference takes them."""
    block = bench.rows.block
    sizes = dict(zip(block.row.tolist(), map(len, bench.rows.rows), strict=True))
    drawn = islice(reference.draws(sizes, seed=SEED, epoch=block.epoch), PLAIN_CONTEXTS)
    place = {row: number for number, row in enumerate(block.row.tolist())}
    return [
        (pings_of(bench.rows.rows[place[row]]), (block.epoch, row, number)) for row, number in drawn
    ]


def _times_as_fast(
    stage: Callable[[], object], done: int, plain: Callable[[], object], plainly_done: int
) -> float:
    """Return how many times as much a stage does in the same CPU time: the median of turns."""
    stage(), plain()
    found = []
    for _ in range(ROUNDS):
        found.append(done / _cpu_s(stage) / (plainly_done / _cpu_s(plain)))
    return median(found)


def _cpu_s(call: Callable[[], object]) -> float:
    started_s = time.thread_time()
    call()
    return time.thread_time() - started_s
