"""Drawing contexts from rows."""

from collections import Counter
from itertools import combinations

import numpy as np
import pytest

from netpipe.workload.formats.rows import ProbeRow, take
from netpipe.workload.sampling.context_order import ContextBlock
from netpipe.workload.sampling.counter_rng import fold_key
from netpipe.workload.sampling.sampler import (
    BlockRows,
    Contexts,
    _choose,
    _choose_without_replacement,
    sample,
)
from netpipe.workload.tokens.tokenizer import encode
from tests.workload import reference
from tests.workload.factories import as_row, make_pings

SIZES = (1, 2, 8, 33, 34, 35, 40, 100, 1000)


def _block(row: ProbeRow, contexts: int) -> BlockRows:
    numbers = np.arange(contexts)
    block = ContextBlock(np.zeros_like(numbers), np.zeros_like(numbers), numbers)
    return BlockRows(block, [row])


def _split(values: np.ndarray, contexts: Contexts) -> list[np.ndarray]:
    return np.split(values, np.cumsum(contexts.sizes)[:-1])


@pytest.mark.parametrize("target", [8, 34])
@pytest.mark.parametrize("seed", [0, 123_456_789_012])
def test_tokens_equal_the_reference(seed: int, target: int) -> None:
    """Contexts of rows of every size, drawn together, are bit for bit those of the definition."""
    histories = [make_pings(size, seed=size) for size in SIZES]
    places = [(epoch, row, k) for epoch in (0, 5) for row in range(len(SIZES)) for k in range(16)]
    epoch, row, number = np.array(places).T
    rows = [as_row(pings) for pings in histories] * 2
    contexts = sample(BlockRows(ContextBlock(epoch, row, number), rows), seed=seed, target=target)
    stream = encode(contexts)
    ends = np.cumsum(stream.sizes)
    for place, tokens in zip(places, np.split(stream.tokens, ends[:-1]), strict=True):
        drawn = reference.sample(histories[place[1]], seed=seed, place=place, target=target)
        assert tokens.tolist() == reference.encode(drawn), place


def test_a_small_row_is_taken_whole() -> None:
    """Below the target every context has all measurements of its row, each once."""
    row = as_row(make_pings(33, seed=0))
    contexts = sample(_block(row, 50), seed=0, target=34)
    assert set(contexts.sizes.tolist()) == {33}
    everything = sorted(take([row], [np.arange(33)]).second.tolist())
    for seconds in _split(contexts.measurements.second, contexts):
        assert sorted(seconds.tolist()) == everything


def test_modes_have_their_shares() -> None:
    """40% of many contexts have every timestamp, 30% some and 30% none."""
    contexts = sample(_block(as_row(make_pings(100, seed=0)), 5000), seed=0, target=10)
    timed = _split(contexts.timed, contexts)
    kinds = Counter(
        "full" if has_time.all() else "none" if not has_time.any() else "partial"
        for has_time in timed
        if len(has_time) > 1
    )
    total = sum(kinds.values())
    assert kinds["full"] / total == pytest.approx(0.4, abs=0.03)
    assert kinds["none"] / total == pytest.approx(0.3, abs=0.03)


def test_timed_measurements_never_go_back() -> None:
    """Within a context those that keep their timestamp are in time order; "full" has them all."""
    contexts = sample(_block(as_row(make_pings(300, seed=2)), 300), seed=1, target=34)
    seconds = _split(contexts.measurements.second, contexts)
    for second, timed in zip(seconds, _split(contexts.timed, contexts), strict=True):
        assert (np.diff(second[timed]) >= 0).all()


def test_every_subset_is_as_likely() -> None:
    """Each choice of 3 out of 5 positions comes about equally often."""
    keys = fold_key(0, np.arange(40_000))
    positions = _choose_without_replacement(keys, np.full(40_000, 5), 3)
    counts = Counter(map(tuple, positions.tolist()))
    assert set(counts) == set(combinations(range(5), 3))
    assert all(3700 < count < 4300 for count in counts.values())  # 5 standard deviations


def test_windows_are_log_uniform() -> None:
    """Half of the windows of a long row are shorter than the root of its length."""
    positions, sizes = _choose(fold_key(3, np.arange(4000)), np.full(4000, 10_000), 34)
    short = np.mean(sizes < 34)
    assert short == pytest.approx(np.log(34) / np.log(10_000), abs=0.03)
    assert positions.max() < 10_000 + 34
