"""Round-trip times in 16 bits."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from netpipe.workload.formats.rtt import FAILED, decode_rtt, encode_rtt
from tests.workload import reference

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
    """From 1024 us on, the time comes back within 1/1024 of it, never above."""
    rtt_us = 1000 * rtt_ms
    decoded_us = 1000 * decode_rtt(encode_rtt(np.array([rtt_ms])))[0]
    assert -1e-6 * rtt_us <= rtt_us - decoded_us < rtt_us / 1024


def test_every_code_comes_back() -> None:
    """Decoding and coding again gives every normal code back."""
    mantissa, exponent = np.meshgrid(np.arange(1024, 2048), np.arange(32))
    codes = np.concatenate([np.arange(1, 1024), (exponent << 11 | mantissa).ravel()])
    decoded_ms = decode_rtt(codes.astype(np.uint16))
    # Half a microsecond above, so that the division by 1000 cannot fall below the step.
    np.testing.assert_array_equal(encode_rtt(decoded_ms + 0.0005), codes)


def test_extremes() -> None:
    """Nothing is shorter than 1 us or longer than the largest code; a failure has code 0."""
    codes = encode_rtt(np.array([0.0, -0.0, 1e-30, 3e38, 1.7e308, -1.0]))
    assert codes.tolist() == [1, 1, 1, 0xFFFF, 0xFFFF, FAILED]
