"""The numbers of the 267 tokens in the vocabulary."""

MEASUREMENT_START = 0
SRC_IPV4 = 1
SRC_IPV6 = 2
DST_IPV4 = 3
DST_IPV6 = 4
TIMESTAMP_ABS = 5
TIMESTAMP_DELTA1 = 6
TIMESTAMP_DELTA4 = 7
RTT_START = 8
THROUGHPUT_START = 9  # reserved
FAILED = 10
FIRST_BYTE = 11
"""Byte `b` is token `FIRST_BYTE + b`; a smaller token opens a field or a measurement."""

PADDING = 0
"""The same number as `MEASUREMENT_START`: padding is recognised by its segment, which is 0."""

VOCABULARY = FIRST_BYTE + 256
