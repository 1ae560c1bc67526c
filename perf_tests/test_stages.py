"""The stages of the pipeline, each timed in turns with the plain reference on the same rows.

Both are timed in CPU time of one thread of one process, so a busy machine slows both down. Each
bound is half of the ratio on two shared cores of an Intel Xeon: a stage twice as slow fails.
"""

import ctypes
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from statistics import median

import numpy as np
import pytest

from netpipe.workload.formats.rows import ProbeRow
from netpipe.workload.sampling.sampler import TOKENS_PER_MEASUREMENT
from netpipe.workload.sources.kept_rows import KeptRows
from netpipe.workload.sources.probe_rows import open_source
from netpipe.workload.tokens.batches import widen
from netpipe.workload.tokens.tokenizer import encode
from perf_tests.stage_bench import LENGTH, SEED, Bench, benches
from tests.workload import reference
from tests.workload.reference_loader import pings_of, reference_batches

ROUNDS = 7
PLAIN_CONTEXTS = 24

MIN_SAMPLING = 7
MIN_ENCODING = 26
MIN_PACKING = 10
MIN_WHOLE = 75
MIN_KEPT = 0.75  # over the speed of reading the same rows from prepared files
KEPT_ROWS, KEPT_BYTES = 256, 1 << 26  # the largest rows take 128 KiB each
MAX_WIDENING = 5  # over the cost of copying the batch
TIMES = 20  # one repetition takes a third of a millisecond
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # malloc.h


@pytest.fixture(scope="module")
def bench(data_directory: Path) -> Bench:
    """Return the bench of the first block of the data."""
    return next(benches(data_directory))


def test_sampling(bench: Bench) -> None:
    """Drawing all measurements at once is several times as fast as one at a time."""
    places = _places(bench)

    def draws() -> int:
        return len(bench.draw().measurements)

    def plain_draws() -> int:
        return sum(len(_drawn(*place)) for place in places)

    assert _times_as_fast(draws, plain_draws) > MIN_SAMPLING


def test_encoding(bench: Bench) -> None:
    """Encoding all contexts at once is many times as fast as one at a time."""
    contexts = bench.draw()
    plain = [_drawn(*place) for place in _places(bench)]

    def encodes() -> int:
        return len(encode(contexts).tokens)

    def plain_encodes() -> int:
        return sum(len(reference.encode(told)) for told in plain)

    assert _times_as_fast(encodes, plain_encodes) > MIN_ENCODING


def test_packing(bench: Bench) -> None:
    """Packing makes tokens many times as fast as the plain reference draws and encodes them."""
    places = _places(bench)

    def packs() -> int:
        return int(bench.pack()["segment_tokens"].sum())

    def plain_contexts() -> int:
        return sum(len(reference.encode(_drawn(*place))) for place in places)

    assert _times_as_fast(packs, plain_contexts) > MIN_PACKING


@pytest.fixture
def reused_memory() -> None:
    """Let malloc keep freed memory; otherwise page faults would cost ten times the work."""
    library = ctypes.CDLL(None)
    for parameter in (_M_MMAP_THRESHOLD, _M_TRIM_THRESHOLD):
        assert library.mallopt(parameter, 1 << 30)


@pytest.mark.usefixtures("reused_memory")
def test_widening(bench: Bench) -> None:
    """Making a batch in the training process costs at most as much as a few copies of it."""
    sequences = bench.pack()
    batch = widen(sequences)

    def widens() -> int:
        return sum(len(widen(sequences)) for _ in range(TIMES))

    def copies() -> int:
        return sum(len([array.copy() for array in batch.values()]) for _ in range(TIMES))

    assert _times_as_fast(widens, copies) > 1 / MAX_WIDENING


def test_rows_on_disk_to_a_batch(bench: Bench, data_directory: Path) -> None:
    """Rows on disk become a batch many times as fast as on the plain path."""
    plain = reference_batches(data_directory, LENGTH, PLAIN_CONTEXTS)

    def loads() -> int:
        batch = widen(replace(bench, rows=bench.read()).pack())
        return int(np.count_nonzero(batch["inputs_segmentation"]))

    def plain_loads() -> int:
        return int(np.count_nonzero(next(plain)["inputs_segmentation"]))

    assert _times_as_fast(loads, plain_loads) > MIN_WHOLE


def test_rows_kept_in_memory(data_directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kept rows are read from files once, then from memory about as fast as from prepared files."""
    source, read = open_source(data_directory, "train"), Counter[int]()
    from_files = source.read

    def count_and_read(rows: Sequence[int]) -> list[ProbeRow]:
        read.update(rows)
        return from_files(rows)

    monkeypatch.setattr(source, "read", count_and_read)
    kept = KeptRows(source, KEPT_BYTES)
    rows = range(min(KEPT_ROWS, len(source.row_measurements)))
    faster = _times_as_fast(lambda: len(kept.read(rows)), lambda: len(from_files(rows)))
    assert {read[row] for row in rows} == {1}
    assert faster > MIN_KEPT


Place = tuple[list[reference.Ping], tuple[int, int, int]]


def _places(bench: Bench) -> list[Place]:
    """Return the first contexts and their rows, in the form that the reference takes."""
    block = bench.rows.block
    rows = dict(zip(block.row.tolist(), bench.rows.rows, strict=True))
    sizes = {number: len(row) for number, row in rows.items()}
    drawn = islice(reference.draws(sizes, seed=SEED, epoch=block.epoch), PLAIN_CONTEXTS)
    return [(pings_of(rows[row]), (block.epoch, row, number)) for row, number in drawn]


def _drawn(pings: list[reference.Ping], place: tuple[int, int, int]) -> list[reference.Told]:
    return reference.sample(pings, seed=SEED, place=place, target=LENGTH // TOKENS_PER_MEASUREMENT)


def _times_as_fast(stage: Callable[[], int], plain: Callable[[], int]) -> float:
    """Return the work per CPU second of `stage` over that of `plain`, as a median over rounds.

    Both functions return the amount of work that they did.
    """
    stage()
    plain()
    return median(_per_cpu_s(stage) / _per_cpu_s(plain) for _ in range(ROUNDS))


def _per_cpu_s(work: Callable[[], int]) -> float:
    started_s = time.thread_time()
    return work() / (time.thread_time() - started_s)
