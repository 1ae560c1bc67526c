"""Tokens of contexts."""

from ipaddress import IPv4Address, IPv6Address

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from netpipe.workload.formats.rows import Measurements, take
from netpipe.workload.sampling.sampler import Contexts
from netpipe.workload.tokens import vocabulary
from netpipe.workload.tokens.tokenizer import encode
from tests.workload import reference
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
    assert stream.tokens[-5:].tolist() == [vocabulary.TIMESTAMP_DELTA4, *[266] * 4]
