"""Round-trip times as 16-bit floating-point numbers: 5 bits of exponent, 11 of mantissa.

The code is computed when the data are prepared, and becomes the two bytes after an RTT token. Code
0 means a failed measurement, since a time is never below 1 us.
"""

import numpy as np
from numpy.typing import NDArray

FAILED = 0
_MANTISSA_BITS = 11
_MANTISSA_MAX = (1 << _MANTISSA_BITS) - 1
_EXPONENT_MAX = 31
# Far above the largest code, and far below an overflow when multiplied by 1000.
_MAX_MS = 1e12


def encode_rtt(rtt_ms: NDArray[np.floating]) -> NDArray[np.uint16]:
    """Encode times as `e << 11 | m`, the largest `m * 2**e` not above the time in microseconds.

    Times are finite; a negative one is a failed measurement. The relative error is below 1/1024
    from 1024 us on; below that, times are cut to whole microseconds.
    """
    wide_ms = rtt_ms.astype(np.float64)
    rtt_us = np.maximum(1.0, 1000.0 * np.minimum(wide_ms, _MAX_MS))
    bit_length = np.frexp(rtt_us)[1]  # rtt_us < 2**bit_length, and no smaller power will do
    exponent = np.clip(bit_length - _MANTISSA_BITS, 0, _EXPONENT_MAX)
    mantissa = np.minimum(np.floor(np.ldexp(rtt_us, -exponent)), _MANTISSA_MAX)
    code = exponent << _MANTISSA_BITS | mantissa.astype(np.int64)
    return np.where(wide_ms < 0, FAILED, code).astype(np.uint16)


def decode_rtt(code: NDArray[np.uint16] | np.uint16) -> NDArray[np.float64]:
    """Return codes above 0 as milliseconds, float64 with the shape of `code`."""
    wide = np.asarray(code, np.float64)
    exponent = np.floor(wide / (1 << _MANTISSA_BITS))
    return np.ldexp(wide % (1 << _MANTISSA_BITS), exponent.astype(np.int64)) / 1000.0
