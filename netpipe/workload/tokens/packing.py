"""Sequences of equal length, which hold one context each or are filled with several."""

from bisect import bisect_left, bisect_right
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from netpipe.workload.sampling.context_order import contexts_per_row, ranges
from netpipe.workload.sampling.sampler import ContextDraws, Contexts, DrawnRows, likely_measurements
from netpipe.workload.tokens.batches import Sequences, sequences_of
from netpipe.workload.tokens.tokenizer import TokenStream, encode, tokens_per_measurement

# The mean if 58% of the measurements are IPv4.
_LIKELY_TOKENS_PER_MEASUREMENT = 24
_DROPPED_CONTEXTS_PER_SEQUENCE = 0.75
_EXTRA_CONTEXTS_FRACTION = 0.05


def fill(stream: TokenStream, *, sequence_length: int) -> Sequences:
    """Put each context into its own sequence, cut or padded to length."""
    room = sequence_length + 1
    kept = np.minimum(stream.sizes, room)
    tokens = stream.tokens[ranges(np.cumsum(stream.sizes) - stream.sizes, kept)]
    return sequences_of(tokens, np.ones_like(kept), kept, room=room)


def likely_contexts(
    row_measurements: NDArray[np.int64], *, sequences: int, sequence_length: int
) -> int:
    """Estimate how many contexts fill the sequences."""
    measurements = np.average(
        likely_measurements(row_measurements, sequence_length),
        weights=contexts_per_row(row_measurements),
    )
    in_sequence = sequence_length / (measurements * _LIKELY_TOKENS_PER_MEASUREMENT)
    return int(sequences * (in_sequence + _DROPPED_CONTEXTS_PER_SEQUENCE)) + 1


def pack(
    drawn_from: DrawnRows, *, seed: int, sequences: int, sequence_length: int, at_first: int
) -> Sequences:
    """Fill sequences with contexts from a block's rows until no other measurement fits.

    A context that does not fit is cut before a measurement, the rest is dropped, and the next
    context starts the next sequence. Contexts are random crops of a row, so a cut context is only
    a smaller crop. `at_first` is the number of contexts drawn first, which affects only the speed.
    """
    room = sequence_length + 1
    draws = ContextDraws(drawn_from, seed=seed, sequence_length=sequence_length)
    contexts = draws.take(at_first)
    while len((cuts := cut(contexts, sequences, room)).segments) < sequences:
        missing = 1 - len(cuts.segments) / sequences
        more = draws.take(1 + int((missing + _EXTRA_CONTEXTS_FRACTION) * at_first))
        contexts = Contexts.concatenate([contexts, more])
    stream = encode(contexts.pick(np.arange(len(cuts.sizes)), cuts.sizes))
    return sequences_of(stream.tokens, cuts.segments, stream.sizes, room=room)


@dataclass(frozen=True)
class Cuts:
    """The number of contexts in each full sequence, and of measurements kept in each context."""

    segments: NDArray[np.int64]
    sizes: NDArray[np.int64]


def cut(contexts: Contexts, sequences: int, room: int) -> Cuts:
    """Cut contexts to fill up to `sequences` sequences; a measurement has at most `room` tokens."""
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
