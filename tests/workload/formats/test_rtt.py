"""Round-trip times in 16 bits."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from netpipe.workload.formats.rtt import FAILED, encode_rtt
from tests.workload import reference
from tests.workload.decoder import decode_rtt_us

any_ms = st.floats(allow_nan=False, allow_infinity=False, width=32)


@given(st.lists(any_ms, min_size=1))
def test_codes_equal_the_reference(rtt_ms: list[float]) -> None:
    """Every finite time has the two bytes of the definition, and a negative one fails."""
    for code, ms in zip(encode_rtt(np.array(rtt_ms)).tolist(), rtt_ms, strict=True):
        tokens = reference.result_field(ms)
        expected = FAILED if tokens == [10] else (tokens[1] - 11) << 8 | (tokens[2] - 11)
        assert code == expected


@given(st.floats(1.024, 4e9))
def test_error_is_below_one_in_1024(rtt_ms: float) -> None:
    """From 1024 us on the time comes back within 1/1024 of it, never above."""
    rtt_us = 1000 * rtt_ms
    decoded_us = int(decode_rtt_us(encode_rtt(np.array([rtt_ms])))[0])
    assert 0 <= rtt_us - decoded_us < rtt_us / 1024


def test_every_code_comes_back() -> None:
    """Decoding and coding again gives every normal code back."""
    mantissa, exponent = np.meshgrid(np.arange(1024, 2048), np.arange(32))
    codes = np.concatenate([np.arange(1, 1024), (exponent << 11 | mantissa).ravel()])
    decoded_us = decode_rtt_us(codes.astype(np.uint16))
    # Half a microsecond above, so that the division by 1000 cannot fall below the step.
    np.testing.assert_array_equal(encode_rtt((decoded_us + 0.5) / 1000), codes)


def test_extremes() -> None:
    """Nothing is shorter than 1 us or longer than the largest code; failures decode to -1."""
    codes = encode_rtt(np.array([0.0, -0.0, 1e-30, 3e38, 1.7e308, -1.0]))
    assert decode_rtt_us(codes).tolist() == [1, 1, 1, 2047 << 31, 2047 << 31, -1]
