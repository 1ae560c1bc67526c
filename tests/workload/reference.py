"""The pipeline as it is defined, one measurement after the other, in plain Python.

Slow, and written from the definition alone: what the vectorised code must equal bit for bit.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from itertools import count, permutations

MASK = (1 << 64) - 1
GOLDEN_GAMMA = 0x9E3779B97F4A7C15

WINDOW, OFFSET, CHOICE, MODE, UNTIMED, SHUFFLE, COIN, FIELD_ORDER = range(8)


@dataclass(frozen=True)
class Ping:
    """One measurement."""

    time_us: int
    source: str
    destination: str
    ip_version: int
    rtt_ms: float


@dataclass(frozen=True)
class Told:
    """A measurement of a context: whether it keeps its timestamp, and the order of its fields."""

    ping: Ping
    timed: bool
    field_order: int


def mix(word: int) -> int:
    """The finalizer of SplitMix64."""
    word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9 & MASK
    word = (word ^ (word >> 27)) * 0x94D049BB133111EB & MASK
    return word ^ (word >> 31)


def fold_key(*parts: int) -> int:
    """Hash integers into a key."""
    key = 0
    for part in parts:
        key = mix(((key ^ (part & MASK)) + GOLDEN_GAMMA) & MASK)
    return key


def uniform(key: int, stream: int, slot: int = 0) -> float:
    """Draw from [0, 1)."""
    counter = (stream << 32) + slot + 1
    return (mix((key + counter * GOLDEN_GAMMA) & MASK) >> 11) * 2.0**-53


def context_count(measurements: int) -> int:
    """The number of contexts that a row gives in an epoch."""
    return min(max(math.ceil(measurements / 30), 1), 16)


def epoch_order(row_measurements: Sequence[int], seed: int, epoch: int) -> list[tuple[int, int]]:
    """All (row, number) of an epoch, in order."""
    rows = sorted(range(len(row_measurements)), key=lambda row: fold_key(seed, epoch, row))
    return [(row, k) for row in rows for k in range(context_count(row_measurements[row]))]


def sample(
    row: Sequence[Ping], *, seed: int, place: tuple[int, int, int], target: int
) -> list[Told]:
    """Draw context `place` = (epoch, row, number) of a row in time order."""
    key = fold_key(seed, *place)
    chosen = [row[position] for position in choose(key, len(row), target)]
    arranged = arrange(key, chosen)
    return [
        Told(ping, timed, int(24 * uniform(key, FIELD_ORDER, slot)))
        for slot, (ping, timed) in enumerate(arranged)
    ]


def choose(key: int, size: int, target: int) -> list[int]:
    """Choose positions of a row of this size, ascending."""
    if size < target:
        return list(range(size))
    window = min(max(math.floor(math.exp(uniform(key, WINDOW) * math.log(size))), 1), size)
    offset = math.floor(uniform(key, OFFSET) * (size - window + 1))
    if window <= target:
        return list(range(offset, offset + window))
    chosen: list[int] = []
    for slot in range(target):
        largest = window - target + slot
        number = math.floor(uniform(key, CHOICE, slot) * (largest + 1))
        chosen.append(largest if number in chosen else number)
    return [offset + number for number in sorted(chosen)]


def arrange(key: int, chosen: list[Ping]) -> list[tuple[Ping, bool]]:
    """Order a context by its mode, and say which measurements keep their time."""
    size = len(chosen)
    shuffled = sorted(range(size), key=lambda slot: uniform(key, SHUFFLE, slot))
    mode = uniform(key, MODE)
    if mode < 0.4:
        return [(ping, True) for ping in chosen]
    if mode >= 0.4 + 0.3:
        return [(chosen[slot], False) for slot in shuffled]
    lost = shuffled[: max(1, math.floor(size * (0.1 + 0.8 * uniform(key, UNTIMED))))]
    kept = [slot for slot in range(size) if slot not in lost]
    merged: list[tuple[Ping, bool]] = []
    for step in range(size):
        is_heads = uniform(key, COIN, step) < 0.5
        take_lost = not kept or (bool(lost) and is_heads)
        merged.append((chosen[(lost if take_lost else kept).pop(0)], not take_lost))
    return merged


def rows_of_blocks(
    row_measurements: Sequence[int], *, seed: int, epoch: int, blocks: int
) -> list[list[int]]:
    """The rows of each block of an epoch: each in the one that its first context falls into."""
    order = [row for row, number in epoch_order(row_measurements, seed, epoch) if number == 0]
    total = sum(map(context_count, row_measurements))
    found: list[list[int]] = [[] for _ in range(blocks)]
    before = 0
    for row in order:
        found[before * blocks // total].append(row)
        before += context_count(row_measurements[row])
    return found


def draws(
    row_measurements: Mapping[int, int], *, seed: int, epoch: int
) -> Iterator[tuple[int, int]]:
    """All (row, number) drawn from the rows of a block: endless, round after round."""
    for turn in count():
        drawn = [
            (row, turn * context_count(size) + k)
            for row, size in row_measurements.items()
            for k in range(context_count(size))
        ]
        yield from sorted(drawn, key=lambda one: (one[1] > 0, fold_key(seed, epoch, *one)))


def pack(
    contexts: Iterable[list[list[int]]], *, sequences: int, room: int
) -> list[list[list[int]]]:
    """Fill sequences with contexts, given by the tokens of each of their measurements.

    Returns:
        The segments of each sequence.
    """
    done: list[list[list[int]]] = []
    sequence: list[list[int]] = []
    for context in contexts:
        segment: list[int] = []
        for measurement in context:
            if sum(map(len, sequence)) + len(segment) + len(measurement) > room:
                done.append([*sequence, segment] if segment else sequence)
                sequence = []
                if segment:
                    break  # what is cut off is dropped
            segment += measurement
        else:
            sequence.append(segment)
        if len(done) >= sequences:
            return done[:sequences]
    raise AssertionError("the draws ended")


def encode(context: Sequence[Told]) -> list[int]:
    """The tokens of a context."""
    return [token for measurement in encode_each(context) for token in measurement]


def encode_each(context: Sequence[Told]) -> list[list[int]]:
    """The tokens of each measurement of a context."""
    measurements: list[list[int]] = []
    previous_s: int | None = None
    for told in context:
        fields = [
            address_field(told.ping.source, told.ping.ip_version, 1),
            address_field(told.ping.destination, told.ping.ip_version, 3),
            result_field(told.ping.rtt_ms),
            [],
        ]
        if told.timed:
            second = told.ping.time_us // 1_000_000
            fields[3] = timestamp_field(second, previous_s)
            previous_s = second
        order = list(permutations(range(4)))[told.field_order]
        measurements.append([0, *(token for field in order for token in fields[field])])
    return measurements


def address_field(address: str, ip_version: int, ipv4_role: int) -> list[int]:
    """A role and 4 or 16 bytes; an empty address is zeros."""
    length = 4 if ip_version == 4 else 16
    packed = ip_address(address).packed if address else bytes(length)
    return [ipv4_role + (ip_version == 6), *as_tokens(packed)]


def result_field(rtt_ms: float) -> list[int]:
    """Failed, or the time in two bytes."""
    if rtt_ms < 0:
        return [10]
    rtt_us = max(1.0, 1000 * rtt_ms)
    exponent = next((e for e in range(32) if rtt_us / 2**e < 2048), 31)
    mantissa = int(min(rtt_us / 2**exponent, 2047))
    return [8, *as_tokens(bytes([exponent << 3 | mantissa >> 8, mantissa & 255]))]


def timestamp_field(second: int, previous_s: int | None) -> list[int]:
    """Absolute for the first timestamp, then relative to the one before."""
    if previous_s is None:
        return [5, *as_tokens(second.to_bytes(8, "big", signed=True))]
    delta_s = max(0, second - previous_s)
    if delta_s < 256:
        return [6, *as_tokens(bytes([delta_s]))]
    return [7, *as_tokens(delta_s.to_bytes(4, "big"))]


def as_tokens(octets: bytes) -> list[int]:
    """Bytes as tokens."""
    return [11 + octet for octet in octets]


def padded(tokens: list[int], length: int) -> list[int]:
    """Cut or filled to a length."""
    return (tokens + [0] * length)[:length]
