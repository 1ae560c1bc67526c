"""Contexts -> sequences of one length: one context in each, or as many as fill it."""

from bisect import bisect_left, bisect_right
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from netpipe.data.sampling.context_order import contexts_per_row
from netpipe.data.sampling.draws import ContextDraws, DrawnRows
from netpipe.data.sampling.index_ranges import ranges
from netpipe.data.sampling.sampler import Contexts, likely_measurements
from netpipe.data.tokens.batches import Sequences, sequences_of
from netpipe.data.tokens.tokenizer import TokenStream, encode, tokens_per_measurement

_LIKELY_TOKENS_PER_MEASUREMENT = 24  # of 58% IPv4
_CUT_OFF_PER_SEQUENCE = 0.75  # contexts
_MORE_FRACTION = 0.05


def fill(stream: TokenStream, *, sequence_length: int) -> Sequences:
    """Give each context a sequence of its own, cut or filled with padding."""
    room = sequence_length + 1
    kept = np.minimum(stream.sizes, room)
    tokens = stream.tokens[ranges(np.cumsum(stream.sizes) - stream.sizes, kept)]
    return sequences_of(tokens, np.ones_like(kept), kept, room=room)


def likely_contexts(
    row_measurements: NDArray[np.int64], *, target: int, sequences: int, sequence_length: int
) -> int:
    """Return about how many contexts of a data set's rows fill so many sequences.

    Args:
        row_measurements: int64 (rows,).
        target: The most measurements in a context.
        sequences: How many are filled.
        sequence_length: Tokens of a sequence.
    """
    measurements = np.average(
        likely_measurements(row_measurements, target), weights=contexts_per_row(row_measurements)
    )
    in_sequence = sequence_length / (measurements * _LIKELY_TOKENS_PER_MEASUREMENT)
    return int(sequences * (in_sequence + _CUT_OFF_PER_SEQUENCE)) + 1


def pack(
    drawn_from: DrawnRows,
    *,
    seed: int,
    target: int,
    sequences: int,
    sequence_length: int,
    at_first: int,
) -> Sequences:
    """Fill sequences with contexts of a block's rows until none has room for a measurement more.

    One context follows the other. The one that does not fit is cut where a measurement starts, the
    rest of it is dropped, and the next context begins the next sequence: contexts are random crops
    of a row, so a cut one is only a smaller crop.

    Args:
        drawn_from: The block and its rows; each gives contexts in proportion to its share.
        seed: The pipeline's seed.
        target: The most measurements in a context.
        sequences: How many to fill.
        sequence_length: Tokens of a sequence, without the one that is only a target; enough for
            the longest measurement.
        at_first: How many contexts are drawn at first; changes only how long it takes.
    """
    room = sequence_length + 1
    draws = ContextDraws(drawn_from, seed=seed, target=target)
    contexts = draws.take(at_first)
    while len((cuts := cut(contexts, sequences, room)).segments) < sequences:
        missing = 1 - len(cuts.segments) / sequences
        more = draws.take(1 + int((missing + _MORE_FRACTION) * at_first))
        contexts = Contexts.concatenate([contexts, more])
    stream = encode(contexts.pick(np.arange(len(cuts.sizes)), cuts.sizes))
    return sequences_of(stream.tokens, cuts.segments, stream.sizes, room=room)


@dataclass(frozen=True)
class Cuts:
    """Where contexts are cut so that they fill sequences.

    Attributes:
        segments: int64 (sequences,), the contexts of each sequence that is full.
        sizes: int64 (segments,), the measurements that are left of each of these contexts.
    """

    segments: NDArray[np.int64]
    sizes: NDArray[np.int64]


def cut(contexts: Contexts, sequences: int, room: int) -> Cuts:
    """Say where contexts are cut so that they fill sequences, as many as they fill.

    Args:
        contexts: They follow each other.
        sequences: The most that are filled.
        room: The tokens of a sequence; no measurement has more.
    """
    tokens_before = [0, *np.cumsum(tokens_per_measurement(contexts)).tolist()]
    firsts = [0, *np.cumsum(contexts.sizes).tolist()]
    ends, stops = [0], list[int]()
    while len(stops) < sequences:
        limit = tokens_before[firsts[ends[-1]]] + room
        if tokens_before[-1] < limit:
            break
        stops.append(bisect_right(tokens_before, limit) - 1)
        ends.append(bisect_left(firsts, stops[-1]))
    sizes = contexts.sizes[: ends[-1]].copy()
    last = np.array(ends[1:], np.int64) - 1
    sizes[last] = np.array(stops, np.int64) - np.array(firsts)[last]
    return Cuts(np.diff(ends), sizes)
