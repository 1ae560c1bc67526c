"""The plan of contexts."""

import pickle
from collections import Counter

import numpy as np
import pytest

from netpipe.workload.sampling.context_order import (
    BlockOrder,
    ContextBlock,
    Epochs,
    RowOrder,
    contexts_per_row,
)
from tests.workload import reference

ROW_SIZES = np.array([1, 30, 31, 90, 1000, 450, 29, 200])
CONTEXTS = [1, 1, 2, 3, 16, 15, 1, 7]


def _order(seed: int = 0, block_size: int = 5, blocks: int = 100) -> BlockOrder:
    contexts = block_size * blocks
    return BlockOrder(Epochs(ROW_SIZES, seed=seed), block_size, blocks, contexts)


def _contexts(block: ContextBlock) -> list[tuple[int, int, int]]:
    columns = (block.epoch.tolist(), block.row.tolist(), block.number.tolist())
    return list(zip(*columns, strict=True))


def test_contexts_follow_the_row() -> None:
    """A row gives one context for every 30 measurements, at least 1 and at most 16."""
    assert contexts_per_row(ROW_SIZES).tolist() == CONTEXTS
    assert [reference.context_count(size) for size in ROW_SIZES.tolist()] == CONTEXTS


def test_each_context_comes_once_in_an_epoch() -> None:
    """Over three epochs, that end inside blocks, every context of every row comes three times."""
    order = _order(block_size=4)
    blocks = [_contexts(order[index]) for index in range(-(-3 * sum(CONTEXTS) // 4))]
    seen = [context for block in blocks for context in block][: 3 * sum(CONTEXTS)]
    expected = {
        (epoch, row, number): 1
        for epoch in range(3)
        for row, count in enumerate(CONTEXTS)
        for number in range(count)
    }
    assert Counter(seen) == expected


def test_the_order_is_the_reference_order() -> None:
    """Rows come in the order of their keys, which changes with the epoch and the seed."""
    for seed in (0, 9):
        order = _order(seed=seed, block_size=sum(CONTEXTS))
        for epoch in (0, 1, 7):
            expected = reference.epoch_order(ROW_SIZES.tolist(), seed, epoch)
            assert _contexts(order[epoch]) == [(epoch, *place) for place in expected]
    assert reference.epoch_order(ROW_SIZES.tolist(), 0, 0) != reference.epoch_order(
        ROW_SIZES.tolist(), 0, 1
    )


def test_a_block_depends_on_its_index_alone() -> None:
    """Blocks are the same in any order of asking, and after pickling."""
    order = _order()
    forwards = [_contexts(order[index]) for index in range(60)]
    backwards = [_contexts(order[index]) for index in reversed(range(60))]
    assert backwards[::-1] == forwards
    assert [_contexts(pickle.loads(pickle.dumps(order))[index]) for index in range(60)] == forwards


def test_a_late_block_costs_no_more() -> None:
    """A block of a far epoch is found without the epochs before it."""
    order = _order(blocks=2**58)
    assert len(order) == 2**58
    assert order[2**58 - 1].epoch[0] > 2**50


def _row_order(blocks_per_epoch: int, seed: int = 0) -> RowOrder:
    return RowOrder(Epochs(ROW_SIZES, seed=seed), blocks_per_epoch=blocks_per_epoch, blocks=100)


@pytest.mark.parametrize("blocks", [1, 2])
def test_each_row_is_in_one_block_of_an_epoch(blocks: int) -> None:
    """The blocks of each epoch have every row once, as the definition cuts them; none is empty."""
    order = _row_order(blocks)
    for epoch in range(5):
        found = [order[epoch * blocks + number] for number in range(blocks)]
        rows = [block.row.tolist() for block in found]
        assert all(block.epoch == epoch and len(block.row) for block in found)
        assert rows == reference.rows_of_blocks(
            ROW_SIZES.tolist(), seed=0, epoch=epoch, blocks=blocks
        )
        assert sorted(row for block in rows for row in block) == list(range(len(ROW_SIZES)))
        for block in found:
            assert block.contexts.tolist() == [CONTEXTS[row] for row in block.row.tolist()]


def test_groups_are_read_one_after_the_other() -> None:
    """Rows that are read together come together, the groups in an order of each epoch."""
    sizes, groups = np.full(60, 30), np.repeat([3, 0, 7], 20)
    order = RowOrder(Epochs(sizes, seed=0, row_group=groups), blocks_per_epoch=3, blocks=30)
    orders = set()
    for epoch in range(10):
        blocks = [set(groups[order[3 * epoch + number].row].tolist()) for number in range(3)]
        assert sorted(map(len, blocks)) == [1, 1, 1]
        orders.add(tuple(next(iter(block)) for block in blocks))
    assert len(orders) > 2
