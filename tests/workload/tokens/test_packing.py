"""Contexts in sequences."""

from collections.abc import Iterator, Sequence
from itertools import islice

import numpy as np
import pytest

from netpipe.workload.formats.rows import ROW_BYTES
from netpipe.workload.sampling.context_order import Epochs, RowBlock, RowOrder, contexts_per_row
from netpipe.workload.sampling.sampler import DrawnRows
from netpipe.workload.tokens.batches import Sequences, widen
from netpipe.workload.tokens.packing import fill, likely_contexts, pack
from netpipe.workload.tokens.tokenizer import TokenStream
from tests.workload import reference
from tests.workload.factories import as_row, make_pings
from tests.workload.reference import Ping

STREAM = TokenStream(np.arange(1, 15, dtype=np.int16), np.array([3, 7, 4]))
SIZES = (1, 2, 33, 34, 90, 1000, 20_000)
SEED, EPOCH = 5, 3


def _block(histories: Sequence[list[Ping]]) -> DrawnRows:
    sizes = np.array([len(pings) for pings in histories])
    block = RowBlock(EPOCH, np.arange(len(sizes)), contexts_per_row(sizes))
    return DrawnRows(block, [as_row(pings) for pings in histories])


def _expected(histories: Sequence[list[Ping]], target: int) -> Iterator[list[list[int]]]:
    sizes = {row: len(pings) for row, pings in enumerate(histories)}
    for row, number in reference.draws(sizes, seed=SEED, epoch=EPOCH):
        place = (EPOCH, row, number)
        drawn = reference.sample(histories[row], seed=SEED, place=place, target=target)
        yield reference.encode_each(drawn)


def _pack(block: DrawnRows, length: int, sequences: int = 9, at_first: int = 20) -> Sequences:
    return pack(
        block,
        seed=SEED,
        sequences=sequences,
        sequence_length=length,
        at_first=at_first,
    )


def _segments(packed: Sequences) -> list[list[list[int]]]:
    """Return the tokens of each segment of each sequence."""
    sizes = iter(packed["segment_tokens"].tolist())
    found = []
    for tokens, segments in zip(packed["tokens"], packed["segments"].tolist(), strict=True):
        lengths = list(islice(sizes, segments))
        found.append([part.tolist() for part in np.split(tokens, np.cumsum(lengths))[:-1]])
    return found


def test_filled_are_cut_and_padded() -> None:
    """Contexts shorter and longer than a sequence are filled and cut; targets are one ahead."""
    batch = widen(fill(STREAM, sequence_length=4))
    assert batch["inputs"].tolist() == [[1, 2, 3, 0], [4, 5, 6, 7], [11, 12, 13, 14]]
    assert batch["targets"].tolist() == [[2, 3, 0, 0], [5, 6, 7, 8], [12, 13, 14, 0]]
    assert batch["inputs_segmentation"].tolist() == [[1, 1, 1, 0], [1] * 4, [1] * 4]
    assert batch["targets_segmentation"].tolist() == [[1, 1, 0, 0], [1] * 4, [1, 1, 1, 0]]
    assert batch["inputs_position"].tolist() == [[0, 1, 2, 0], [0, 1, 2, 3], [0, 1, 2, 3]]
    assert batch["targets_position"].tolist() == [[0, 1, 0, 0], [0, 1, 2, 3], [0, 1, 2, 0]]


@pytest.mark.parametrize("length", [60, 256, 1024])
@pytest.mark.parametrize("sizes", [SIZES, (1,), (20_000,), (3, 3, 3)])
def test_packed_equal_the_reference(sizes: Sequence[int], length: int) -> None:
    """Sequences of rows of every size are, segment for segment, those of the definition."""
    histories = [make_pings(size, seed=size) for size in sizes]
    expected = reference.pack(_expected(histories, length // 30), sequences=9, room=length + 1)
    assert _segments(_pack(_block(histories), length)) == expected


def test_how_many_are_drawn_at_first_changes_nothing() -> None:
    """One context at a time, or many more than fit: the sequences are the same."""
    block = _block([make_pings(size, seed=size) for size in SIZES])
    for at_first in (1, 7, 400):
        for key, values in _pack(block, 256).items():
            np.testing.assert_array_equal(_pack(block, 256, at_first=at_first)[key], values)


def test_the_estimate_is_near() -> None:
    """The estimate for rows of many sizes is right to within a third."""
    sizes = np.array([10, 40, 300, 2000] * 20)
    block = _block([make_pings(size, seed=number) for number, size in enumerate(sizes.tolist())])
    likely = likely_contexts(sizes, sequences=60, sequence_length=1024)
    needed = len(_pack(block, 1024, sequences=60)["segment_tokens"])
    assert 0.75 * needed < likely < 1.33 * needed


def test_bytes_read_for_a_token_are_bounded() -> None:
    """A batch of 128 x 1024 reads less than 30 bytes a token, even from the largest rows."""
    measurements = ROW_BYTES // 8  # seconds in 4 bytes, the time and the pair in 2 each
    sizes = np.full(1000, measurements)
    likely = likely_contexts(sizes, sequences=128, sequence_length=1024)
    blocks = int(contexts_per_row(sizes).sum()) // likely
    order = RowOrder(Epochs(sizes, seed=0), blocks_per_epoch=blocks, blocks=blocks)
    read = [len(order[number].row) * ROW_BYTES for number in range(blocks)]
    assert np.mean(read) < 30 * 128 * 1024
