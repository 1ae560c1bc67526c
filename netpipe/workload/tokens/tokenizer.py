"""The encoding of contexts as tokens, all measurements at once.

A measurement becomes `MEASUREMENT_START` and its fields, in an order that is drawn for each
measurement. A field is a role token and its bytes. The starts of all fields are computed from their
lengths; then all fields of a kind are written at once.
"""

from dataclasses import dataclass
from itertools import permutations

import numpy as np
from numpy.typing import NDArray

from netpipe.workload.formats import rtt
from netpipe.workload.formats.rows import Measurements
from netpipe.workload.sampling.sampler import Contexts
from netpipe.workload.tokens import vocabulary

SOURCE, DESTINATION, RESULT, TIMESTAMP = range(4)
FIELD_PERMUTATIONS = tuple(permutations(range(4)))
"""Indexed by `Contexts.field_order`; an omitted timestamp takes no tokens."""

MAX_DELTA_S = (1 << 32) - 1
_DELTA1_S = 256
_PERMUTATIONS = np.array(FIELD_PERMUTATIONS).T.copy()
_NO_BYTES = np.zeros((1, 0), np.uint8)
_TIMESTAMP_NUMBERS = {
    vocabulary.TIMESTAMP_ABS: ">i8",
    vocabulary.TIMESTAMP_DELTA1: ">u1",
    vocabulary.TIMESTAMP_DELTA4: ">u4",
}
_TIMESTAMP_TOKENS = np.zeros(vocabulary.VOCABULARY, np.int64)
for _role, _number in _TIMESTAMP_NUMBERS.items():
    _TIMESTAMP_TOKENS[_role] = 1 + np.dtype(_number).itemsize


@dataclass(frozen=True)
class TokenStream:
    """The concatenated tokens of contexts, int16 (tokens,), and the number in each context."""

    tokens: NDArray[np.int16]
    sizes: NDArray[np.int64]


def encode(contexts: Contexts) -> TokenStream:
    """Encode contexts in order; each has at least one measurement."""
    measured, timed = contexts.measurements, contexts.timed
    failed = measured.rtt_code == rtt.FAILED
    role, elapsed = _timestamps(contexts)
    field_tokens = _field_tokens(contexts, role)
    ends = np.cumsum(1 + field_tokens.sum(axis=0))
    starts = _find_starts(field_tokens, contexts.field_order, ends)
    tokens = np.full(ends[-1], vocabulary.MEASUREMENT_START, np.int16)
    _write_addresses(tokens, starts, measured)
    _write(tokens, starts[RESULT, failed], vocabulary.FAILED, _NO_BYTES)
    octets = _big_endian(measured.rtt_code[~failed], ">u2")
    _write(tokens, starts[RESULT, ~failed], vocabulary.RTT_START, octets)
    timestamps = starts[TIMESTAMP, timed]
    for kind, number in _TIMESTAMP_NUMBERS.items():
        is_kind = role == kind
        _write(tokens, timestamps[is_kind], kind, _big_endian(elapsed[is_kind], number))
    context_ends = ends[np.cumsum(contexts.sizes) - 1]
    return TokenStream(tokens, np.diff(context_ends, prepend=0))


def tokens_per_measurement(contexts: Contexts) -> NDArray[np.int64]:
    """Return the number of tokens of each measurement, int64 (measurements,)."""
    role, _ = _timestamps(contexts)
    return 1 + np.asarray(_field_tokens(contexts, role).sum(axis=0))


def _field_tokens(contexts: Contexts, role: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the number of tokens of each field of each measurement, (4, measurements)."""
    measured = contexts.measurements
    tokens = np.zeros((4, len(measured)), np.int64)
    tokens[SOURCE] = tokens[DESTINATION] = np.where(measured.is_ipv6, 17, 5)
    tokens[RESULT] = np.where(measured.rtt_code == rtt.FAILED, 1, 3)
    tokens[TIMESTAMP, contexts.timed] = _TIMESTAMP_TOKENS[role]
    return tokens


def _timestamps(contexts: Contexts) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the role token and the number of each timestamp.

    The first timestamp of a context is in seconds since 1970, the others in seconds since the last.
    """
    context = np.repeat(np.arange(len(contexts.sizes)), contexts.sizes)[contexts.timed]
    second = contexts.measurements.second[contexts.timed]
    is_first = np.diff(context, prepend=-1) > 0
    delta_s = np.clip(np.diff(second, prepend=0), 0, MAX_DELTA_S)
    later = np.where(delta_s < _DELTA1_S, vocabulary.TIMESTAMP_DELTA1, vocabulary.TIMESTAMP_DELTA4)
    role = np.where(is_first, vocabulary.TIMESTAMP_ABS, later)
    return role, np.where(is_first, second, delta_s)


def _find_starts(
    field_tokens: NDArray[np.int64], field_order: NDArray[np.uint8], ends: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the index in the stream at which each field begins, (4, measurements)."""
    starts = np.empty_like(field_tokens)
    number = np.arange(len(ends))
    start = ends - field_tokens.sum(axis=0)
    for field in _PERMUTATIONS[:, field_order]:
        starts[field, number] = start
        start = start + field_tokens[field, number]
    return starts


def _write_addresses(
    tokens: NDArray[np.int16], starts: NDArray[np.int64], measured: Measurements
) -> None:
    for field, octets, role4, role6 in (
        (SOURCE, measured.source, vocabulary.SRC_IPV4, vocabulary.SRC_IPV6),
        (DESTINATION, measured.destination, vocabulary.DST_IPV4, vocabulary.DST_IPV6),
    ):
        is_ipv4 = ~measured.is_ipv6
        _write(tokens, starts[field, is_ipv4], role4, octets[is_ipv4, :4])
        _write(tokens, starts[field, measured.is_ipv6], role6, octets[measured.is_ipv6])


def _write(
    tokens: NDArray[np.int16], starts: NDArray[np.int64], role: int, octets: NDArray[np.uint8]
) -> None:
    """Write a role token and its bytes, uint8 (n, bytes), at each of n starts."""
    tokens[starts] = role
    tokens[starts[:, None] + np.arange(1, octets.shape[1] + 1)] = (
        octets.astype(np.int16) + vocabulary.FIRST_BYTE
    )


def _big_endian(numbers: NDArray[np.integer], dtype: str) -> NDArray[np.uint8]:
    width = np.dtype(dtype).itemsize
    return numbers.astype(dtype).view(np.uint8).reshape(-1, width)
