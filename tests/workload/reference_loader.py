"""The plain reference path as a loader, to be measured with `netpipe throughput --against`.

Rows are read as the library reads them. From there on it is `tests.workload.reference` alone: one
measurement after the other, a sequence of its own for every context, no worker, nothing ahead. A
context is made of its place alone, as an element of a map dataset is, and so reads its row: that is
most of the time.
"""

from collections.abc import Iterator
from ipaddress import IPv4Address, IPv6Address
from itertools import count
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from netpipe.workload.formats.rows import ProbeRow, take
from netpipe.workload.formats.rtt import FAILED, decode_rtt
from netpipe.workload.preparation.synthetic import data_of_user
from netpipe.workload.sources.probe_rows import ArrayRecordSource
from tests.workload import reference
from tests.workload.reference import Ping

SEQUENCE_LENGTH: Final = 1024
BATCH_SIZE: Final = 32
TOKENS_PER_MEASUREMENT: Final = 30

Batch = dict[str, NDArray[np.int32]]


def loader() -> Iterator[Batch]:
    """Give batches of the default data forever."""
    return reference_batches(data_of_user(), SEQUENCE_LENGTH, BATCH_SIZE)


def reference_batches(
    data: Path, sequence_length: int, batch_size: int, seed: int = 0
) -> Iterator[Batch]:
    """Give batches of the train split of prepared data forever, each int32 (batch, sequence)."""
    contexts = _contexts(data, sequence_length // TOKENS_PER_MEASUREMENT, seed)
    while True:
        yield _batch([next(contexts) for _ in range(batch_size)], sequence_length)


def pings_of(row: ProbeRow) -> list[Ping]:
    """Write a row down as measurements, in time order."""
    columns = take([row], [np.arange(len(row))])
    return [
        Ping(
            time_us=second * 1_000_000,
            source=_address(source, is_ipv6),
            destination=_address(destination, is_ipv6),
            ip_version=6 if is_ipv6 else 4,
            # Rounding must not bring it below its code.
            rtt_ms=-1.0 if code == FAILED else rtt_ms + 0.0005,
        )
        for second, source, destination, is_ipv6, code, rtt_ms in zip(
            columns.second.tolist(),
            map(bytes, columns.source),
            map(bytes, columns.destination),
            columns.is_ipv6.tolist(),
            columns.rtt_code.tolist(),
            decode_rtt(columns.rtt_code).tolist(),
            strict=True,
        )
    ]


def _contexts(data: Path, target: int, seed: int) -> Iterator[list[int]]:
    source = ArrayRecordSource(data, "train")
    sizes = source.row_measurements.tolist()
    for epoch in count():
        for row, number in reference.epoch_order(sizes, seed, epoch):
            pings = pings_of(source.read([row])[0])
            place = (epoch, row, number)
            yield reference.encode(reference.sample(pings, seed=seed, place=place, target=target))


def _batch(contexts: list[list[int]], sequence_length: int) -> Batch:
    lines = [reference.padded(tokens, sequence_length + 1) for tokens in contexts]
    sizes = [min(len(tokens), sequence_length + 1) for tokens in contexts]
    filled = [[1] * size + [0] * (sequence_length + 1 - size) for size in sizes]
    places = range(sequence_length)
    return {
        "inputs": _array([line[:-1] for line in lines]),
        "targets": _array([line[1:] for line in lines]),
        "inputs_segmentation": _array([line[:-1] for line in filled]),
        "targets_segmentation": _array([line[1:] for line in filled]),
        "inputs_position": _array([[n * one[n] for n in places] for one in filled]),
        "targets_position": _array([[n * one[n + 1] for n in places] for one in filled]),
    }


def _address(octets: bytes, is_ipv6: bool) -> str:
    return str(IPv6Address(octets) if is_ipv6 else IPv4Address(octets[:4]))


def _array(lines: list[list[int]]) -> NDArray[np.int32]:
    return np.array(lines, np.int32)
