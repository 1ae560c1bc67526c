"""Tokens and RTT codes decoded: the inverse of `tokens.tokenizer` and `formats.rtt`."""

import numpy as np
from numpy.typing import NDArray

from netpipe.workload.formats import rtt
from netpipe.workload.formats.addresses import ADDRESS_BYTES
from netpipe.workload.formats.rows import Measurements
from netpipe.workload.tokens import vocabulary

_SOURCES = (vocabulary.SRC_IPV4, vocabulary.SRC_IPV6)
_DESTINATIONS = (vocabulary.DST_IPV4, vocabulary.DST_IPV6)
_RESULTS = (vocabulary.RTT_START, vocabulary.FAILED)
_NUMBERS = {
    vocabulary.TIMESTAMP_ABS: ">i8",
    vocabulary.TIMESTAMP_DELTA1: ">u1",
    vocabulary.TIMESTAMP_DELTA4: ">u4",
    vocabulary.RTT_START: ">u2",
}
_BYTES = np.zeros(vocabulary.FIRST_BYTE, np.int64)
_BYTES[list(_NUMBERS)] = [np.dtype(number).itemsize for number in _NUMBERS.values()]
_BYTES[vocabulary.THROUGHPUT_START] = -1  # reserved: fits nothing
_BYTES[[vocabulary.SRC_IPV4, vocabulary.DST_IPV4]] = 4
_BYTES[[vocabulary.SRC_IPV6, vocabulary.DST_IPV6]] = ADDRESS_BYTES


def decode(tokens: NDArray[np.integer]) -> tuple[Measurements, NDArray[np.bool_]]:
    """Decode the tokens of one context.

    Args:
        tokens: Integers (n,), n >= 1: whole measurements, no padding.

    Returns:
        The measurements in the order of their tokens, and bool (measurements,): whether each has a
        timestamp; without one its `second` is 0.

    Raises:
        ValueError: The tokens are no whole measurements.
    """
    fields = _Fields(tokens)
    source, is_ipv6 = fields.addresses(_SOURCES)
    destination, is_ipv6_too = fields.addresses(_DESTINATIONS)
    if (is_ipv6 != is_ipv6_too).any():
        raise ValueError("both addresses of a measurement must be of one family")
    second, timed = fields.seconds()
    return Measurements(second, fields.rtt_codes(), is_ipv6, source, destination), timed


def decode_rtt_us(code: NDArray[np.uint16]) -> NDArray[np.int64]:
    """Decode RTT codes to int64 microseconds of the same shape, -1 for a failed measurement."""
    mantissa, exponent = code.astype(np.int64) & 2047, code >> 11
    return np.where(code == rtt.FAILED, -1, mantissa << exponent)


class _Fields:
    """Where the fields of tokens begin; the tokens that open them are never bytes."""

    def __init__(self, tokens: NDArray[np.integer]) -> None:
        self._tokens = tokens
        self._begin = np.flatnonzero(tokens < vocabulary.FIRST_BYTE)
        self._role = tokens[self._begin]
        sizes = np.diff(self._begin, append=len(tokens)) - 1
        if not len(self._begin) or tokens[0] != vocabulary.MEASUREMENT_START:
            raise ValueError("tokens must begin with a measurement")
        if (sizes != _BYTES[self._role]).any():
            raise ValueError("each field must be known and have all its bytes")
        opens = self._role == vocabulary.MEASUREMENT_START
        self._owner = np.cumsum(opens) - 1
        self._count = int(np.count_nonzero(opens))

    def addresses(self, roles: tuple[int, int]) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
        """Return octets (measurements, 16), and which are IPv6."""
        self._require_one_of(roles)
        out = np.zeros((self._count, ADDRESS_BYTES), np.uint8)
        for role in roles:
            octets = self._octets(role)
            out[self._owners(role), : octets.shape[1]] = octets
        is_ipv6 = np.zeros(self._count, np.bool_)
        is_ipv6[self._owners(roles[1])] = True
        return out, is_ipv6

    def rtt_codes(self) -> NDArray[np.uint16]:
        """Return codes (measurements,)."""
        self._require_one_of(_RESULTS)
        out = np.full(self._count, rtt.FAILED, np.uint16)
        out[self._owners(vocabulary.RTT_START)] = self._numbers(vocabulary.RTT_START)
        return out

    def seconds(self) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return seconds since 1970 (measurements,), and which measurements have them."""
        elapsed, timed = np.zeros(self._count, np.int64), np.zeros(self._count, np.bool_)
        roles = (
            vocabulary.TIMESTAMP_ABS,
            vocabulary.TIMESTAMP_DELTA1,
            vocabulary.TIMESTAMP_DELTA4,
        )
        timestamps = self._role[np.isin(self._role, roles)]
        is_absolute = timestamps == vocabulary.TIMESTAMP_ABS
        if (is_absolute != (np.arange(len(timestamps)) == 0)).any():
            raise ValueError("the first timestamp, and no other, must be absolute")
        for role in roles:
            elapsed[self._owners(role)] = self._numbers(role)
            timed[self._owners(role)] = True
        if np.count_nonzero(timed) != len(timestamps):
            raise ValueError("a measurement must have at most one timestamp")
        return np.where(timed, np.cumsum(elapsed), 0), timed

    def _require_one_of(self, roles: tuple[int, int]) -> None:
        owners = self._owner[np.isin(self._role, roles)]
        if not np.array_equal(owners, np.arange(self._count)):
            raise ValueError("each measurement must have one source, destination and result")

    def _owners(self, role: int) -> NDArray[np.int64]:
        owners: NDArray[np.int64] = self._owner[self._role == role]
        return owners

    def _octets(self, role: int) -> NDArray[np.uint8]:
        first = self._begin[self._role == role, None] + 1
        tokens = self._tokens[first + np.arange(_BYTES[role])]
        return (tokens - vocabulary.FIRST_BYTE).astype(np.uint8)

    def _numbers(self, role: int) -> NDArray[np.integer]:
        numbers: NDArray[np.integer] = self._octets(role).view(_NUMBERS[role])[:, 0]
        return numbers
