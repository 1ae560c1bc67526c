"""Drawing contexts from rows."""

from collections import Counter
from itertools import combinations

import numpy as np
import pytest

from netpipe.workload.formats.rows import ProbeRow
from netpipe.workload.sampling.context_order import ContextBlock
from netpipe.workload.sampling.counter_rng import fold_key
from netpipe.workload.sampling.sampler import BlockRows, _choose_without_replacement, sample
from netpipe.workload.tokens.tokenizer import encode
from tests.workload import reference
from tests.workload.factories import as_row, make_pings

SIZES = (1, 2, 8, 33, 34, 35, 40, 100, 1000)


def _block(row: ProbeRow, contexts: int) -> BlockRows:
    numbers = np.arange(contexts)
    block = ContextBlock(np.zeros_like(numbers), np.zeros_like(numbers), numbers)
    return BlockRows(block, [row])


@pytest.mark.parametrize("target", [8, 34])
@pytest.mark.parametrize("seed", [0, 123_456_789_012])
def test_tokens_equal_the_reference(seed: int, target: int) -> None:
    """Contexts of rows of every size, drawn together, are bit for bit those of the definition."""
    histories = [make_pings(size, seed=size) for size in SIZES]
    places = [(epoch, row, k) for epoch in (0, 5) for row in range(len(SIZES)) for k in range(16)]
    epoch, row, number = np.array(places).T
    rows = [as_row(pings) for pings in histories] * 2
    block = BlockRows(ContextBlock(epoch, row, number), rows)
    contexts = sample(block, seed=seed, sequence_length=30 * target)
    stream = encode(contexts)
    ends = np.cumsum(stream.sizes)
    for place, tokens in zip(places, np.split(stream.tokens, ends[:-1]), strict=True):
        drawn = reference.sample(histories[place[1]], seed=seed, place=place, target=target)
        assert tokens.tolist() == reference.encode(drawn), place


def test_every_subset_is_as_likely() -> None:
    """Each choice of 3 out of 5 positions comes about equally often."""
    keys = fold_key(0, np.arange(40_000))
    positions = _choose_without_replacement(keys, np.full(40_000, 5), 3)
    counts = Counter(map(tuple, positions.tolist()))
    assert set(counts) == set(combinations(range(5), 3))
    assert all(3700 < count < 4300 for count in counts.values())  # 5 standard deviations
