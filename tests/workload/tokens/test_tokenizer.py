"""Tokens and back."""

from ipaddress import IPv4Address, IPv6Address, ip_address

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netpipe.workload.formats.rows import Measurements, take
from netpipe.workload.sampling.sampler import Contexts
from netpipe.workload.tokens import vocabulary
from netpipe.workload.tokens.tokenizer import encode
from tests.workload import reference
from tests.workload.decoder import decode, decode_rtt_us
from tests.workload.factories import as_row
from tests.workload.reference import Ping, Told

SECOND_LIMIT = 1 << 43  # what a timestamp in microseconds can hold


@st.composite
def pings(draw: st.DrawFn) -> Ping:
    """Any measurement."""
    version = draw(st.sampled_from([4, 6]))
    addresses = st.integers(0, 2 ** (32 if version == 4 else 128) - 1)
    kind = IPv4Address if version == 4 else IPv6Address
    texts = st.one_of(st.just(""), addresses.map(lambda number: str(kind(number))))
    rtt_ms = st.floats(-1, 3e38) | st.floats(0, 300)
    return Ping(0, draw(texts), draw(texts), version, draw(rtt_ms))


@st.composite
def contexts(draw: st.DrawFn) -> list[Told]:
    """Any context whose timed measurements are in time order and at most 136 years apart."""
    first_s = draw(st.integers(-SECOND_LIMIT, SECOND_LIMIT - (1 << 32)))
    gaps = st.one_of(st.integers(0, 3), st.integers(254, 258), st.integers(0, 1 << 28))
    sampled = []
    for ping in draw(st.lists(pings(), min_size=1, max_size=15)):
        first_s += draw(gaps)
        moment = Ping(first_s * 1_000_000, *list(vars(ping).values())[1:])
        sampled.append(Told(moment, draw(st.booleans()), draw(st.integers(0, 23))))
    return sampled


def _columns(sampled: list[Told]) -> Contexts:
    row = as_row([each.ping for each in sampled])
    return Contexts(
        measurements=take([row], [np.arange(len(sampled))]),
        sizes=np.array([len(sampled)]),
        timed=np.array([each.timed for each in sampled]),
        field_order=np.array([each.field_order for each in sampled], np.uint8),
    )


@given(contexts())
def test_tokens_equal_the_reference(sampled: list[Told]) -> None:
    """Any context has the tokens of the definition."""
    assert encode(_columns(sampled)).tokens.tolist() == reference.encode(sampled)


@given(contexts())
def test_decoding_gives_everything_back(sampled: list[Told]) -> None:
    """Every field of every measurement comes back within the format's precision."""
    decoded, timed = decode(encode(_columns(sampled)).tokens)
    assert timed.tolist() == [each.timed for each in sampled]
    for number, each in enumerate(sampled):
        length = 4 if each.ping.ip_version == 4 else 16
        assert decoded.is_ipv6[number] == (each.ping.ip_version == 6)
        for text, octets in (
            (each.ping.source, decoded.source[number]),
            (each.ping.destination, decoded.destination[number]),
        ):
            packed = ip_address(text).packed if text else bytes(length)
            assert octets.tobytes() == packed.ljust(16, b"\0")
        if each.timed:
            assert decoded.second[number] == each.ping.time_us // 1_000_000
        _assert_close(int(decode_rtt_us(decoded.rtt_code)[number]), each.ping.rtt_ms)


def _assert_close(decoded_us: int, rtt_ms: float) -> None:
    if rtt_ms < 0:
        assert decoded_us == -1
        return
    rtt_us = min(max(1.0, 1000 * rtt_ms), float(2047 << 31))
    assert decoded_us <= rtt_us < decoded_us + max(1, decoded_us / 1024) or decoded_us == 2047 << 31


@given(contexts())
def test_encoding_what_was_decoded_changes_nothing(sampled: list[Told]) -> None:
    """Decoded columns encode to the same tokens: nothing more is lost on the way."""
    original = _columns(sampled)
    tokens = encode(original).tokens
    decoded, timed = decode(tokens)
    again = encode(Contexts(decoded, original.sizes, timed, original.field_order)).tokens
    np.testing.assert_array_equal(again, tokens)


def test_lengths_are_those_of_the_format() -> None:
    """IPv4 takes 14 tokens (12 failed), IPv6 38 (36); a timestamp adds 9, 2 or 5."""
    four, six = Ping(0, "192.0.2.1", "", 4, 5.0), Ping(0, "::1", "::2", 6, 5.0)
    for ping, answered, failed in ((four, 14, 12), (six, 38, 36)):
        assert len(encode(_columns([Told(ping, False, 0)])).tokens) == answered
        lost = Ping(0, ping.source, ping.destination, ping.ip_version, -1.0)
        assert len(encode(_columns([Told(lost, False, 0)])).tokens) == failed
    later = [Ping(s * 1_000_000, "", "", 4, 5.0) for s in (0, 255, 511)]
    sampled = [Told(ping, True, 0) for ping in later]
    assert len(encode(_columns(sampled)).tokens) == 3 * 14 + 9 + 2 + 5


def test_contexts_are_encoded_separately() -> None:
    """Each context begins with an absolute timestamp, and its size is given."""
    measured = as_row([Ping(s * 1_000_000, "", "", 4, -1.0) for s in range(4)])
    stream = encode(
        Contexts(
            take([measured], [np.arange(4)]),
            np.array([1, 3]),
            np.ones(4, bool),
            np.zeros(4, np.uint8),
        )
    )
    assert stream.sizes.tolist() == [12 + 9, 3 * 12 + 9 + 2 + 2]
    absolute = np.flatnonzero(stream.tokens == vocabulary.TIMESTAMP_ABS)
    assert (absolute < stream.sizes[0]).tolist() == [True, False]


def test_a_gap_beyond_4_bytes_is_the_longest() -> None:
    """A gap of more than 2**32 - 1 seconds is encoded as that many."""
    measured = Measurements(
        second=np.array([0, 1 << 40]),
        rtt_code=np.zeros(2, np.uint16),
        is_ipv6=np.zeros(2, bool),
        source=np.zeros((2, 16), np.uint8),
        destination=np.zeros((2, 16), np.uint8),
    )
    orders = np.zeros(2, np.uint8)
    stream = encode(Contexts(measured, np.array([2]), np.ones(2, bool), orders))
    assert decode(stream.tokens)[0].second.tolist() == [0, (1 << 32) - 1]


V4 = [0, 1, 11, 11, 11, 11, 3, 11, 11, 11, 11]


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        ([], "begin with"),
        ([10, *V4], "begin with"),
        ([*V4, 8, 11], "all its bytes"),
        ([*V4, 10, 11], "all its bytes"),
        ([*V4, 9, 10], "must be known"),
        (V4, "one source, destination"),
        ([*V4, 10, 10], "one source, destination"),
        ([*V4, *V4[6:], 10], "one source, destination"),
        ([*V4[:6], 4, *[11] * 16, 10], "of one family"),
        ([*V4, 10, 6, 12], "first timestamp"),
        ([*V4, 10, 5, *[11] * 8, 5, *[11] * 8], "first timestamp"),
        ([*V4, 10, 5, *[11] * 8, 6, 11], "at most one"),
    ],
)
def test_what_is_no_measurement_is_refused(tokens: list[int], message: str) -> None:
    """Tokens that the encoder cannot have made are not decoded."""
    with pytest.raises(ValueError, match=message):
        decode(np.array(tokens, np.int16))
