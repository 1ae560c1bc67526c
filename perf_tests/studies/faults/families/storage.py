"""Sources in a slow storage: latency, bandwidth, limits, caches."""

from math import ceil
from typing import Final

from perf_tests.studies.faults.cases import Case, Range, Values, load_s
from perf_tests.studies.faults.parts.batches import ROWS
from perf_tests.studies.faults.parts.stored_rows import (
    LARGE_BYTES,
    Records,
    bandwidth,
    in_shards,
    latency,
    stored,
    threads,
)
from perf_tests.studies.faults.planted import reads_wait_for

_BOUND = ("loader-bound",)
_HEALTHY = ("healthy",)
_STEP_S = Range(0.020, 0.032)
_TOO_SLOW = {"step_s": _STEP_S, "load_ratio": Range(1.4, 2.2)}
_LIGHT = {"step_s": _STEP_S, "load_ratio": Range(0.15, 0.35)}
_LARGE = Records(LARGE_BYTES)
_SLOWER = 10.0  # one shard in eight


def _latency(values: Values, in_flight: int = 1) -> str:
    """Return the latency at which `in_flight` reads need `load_ratio` steps per batch."""
    return latency(in_flight * load_s(values) / ROWS)


def _bandwidth(values: Values) -> str:
    """Return the bandwidth at which a batch of large records takes `load_ratio` steps."""
    return bandwidth(ROWS * LARGE_BYTES / load_s(values))


def _rate(values: Values) -> str:
    """Return the reads per second at which a batch takes `load_ratio` steps."""
    return f"rate={ROWS / load_s(values):.3f}/s"


def _fast_shard_s(values: Values) -> float:
    """Return the read time of a fast shard at which an average batch takes `load_ratio` steps."""
    return load_s(values) / ROWS * 8 / (7 + _SLOWER)


_LATENCY: Final = (
    Case(
        "reads-one-at-a-time",
        "latency",
        "records of a bucket are read one after the other, in the trainer's own thread",
        _BOUND,
        lambda values: stored(_latency(values)),
        _TOO_SLOW,
        budget_ratio=2.0,
        planted=reads_wait_for("latency"),
    ),
    Case(
        "reads-two-at-a-time",
        "latency",
        "two of Grain's threads read from a bucket that would serve hundreds",
        _BOUND,
        lambda values: stored(_latency(values, in_flight=2), threads(2)),
        _TOO_SLOW,
        budget_ratio=2.0,
        planted=reads_wait_for("latency"),
    ),
    Case(
        "reads-in-one-worker",
        "latency",
        "one worker process reads from a bucket, record after record",
        _BOUND,
        lambda values: stored(_latency(values), workers=1),
        _TOO_SLOW,
        budget_ratio=2.0,
        planted=reads_wait_for("latency"),
    ),
    Case(
        "fine-reads-in-flight",
        "latency",
        "sixteen threads read from a bucket, which hides a latency longer than a step",
        _HEALTHY,
        lambda values: stored(_latency(values, in_flight=16), threads(16)),
        {"step_s": _STEP_S, "load_ratio": Range(0.25, 0.35)},
        budget_ratio=2.0,
    ),
)
_BANDWIDTH: Final = (
    Case(
        "narrow-for-one-reader",
        "bandwidth",
        "large records come through a narrow network, one after the other",
        _BOUND,
        lambda values: stored(f"{latency(0.0005)},{_bandwidth(values)}", records=_LARGE),
        _TOO_SLOW,
        budget_ratio=2.0,
        planted=reads_wait_for("bandwidth"),
    ),
    Case(
        "narrow-for-many-readers",
        "bandwidth",
        "large records come through a narrow network, with many reads in flight",
        _BOUND,
        lambda values: stored(
            f"{latency(0.020)},{_bandwidth(values)}", threads(16), records=_LARGE
        ),
        _TOO_SLOW,
        budget_ratio=4.0,
        planted=reads_wait_for("bandwidth"),
    ),
    Case(
        "fine-wide-network",
        "bandwidth",
        "large records come through a network that is wide enough",
        _HEALTHY,
        lambda values: stored(
            f"{latency(0.005)},{_bandwidth(values)}", threads(16), records=_LARGE
        ),
        _LIGHT,
        budget_ratio=2.0,
    ),
)
_THROTTLING: Final = (
    Case(
        "refused-requests",
        "throttling",
        "many threads read small records, and the storage refuses requests above a rate",
        _BOUND,
        lambda values: stored(f"{latency(0.005)},{_rate(values)},retry=50ms", threads(16)),
        _TOO_SLOW,
        # The first of sixteen batches may wait seconds for one read: few rounds fit into 20 s.
        budget_ratio=12.0,
        planted=reads_wait_for("throttling"),
    ),
    Case(
        "requests-in-turn",
        "throttling",
        "many threads read small records, and the storage delays requests above a rate",
        _BOUND,
        lambda values: stored(f"{latency(0.005)},{_rate(values)},retry=0s", threads(16)),
        _TOO_SLOW,
        budget_ratio=4.0,
        planted=reads_wait_for("throttling"),
    ),
    Case(
        "few-connections",
        "throttling",
        "sixteen threads read from a storage that serves two requests at a time",
        _BOUND,
        lambda values: stored(f"{_latency(values, in_flight=2)},concurrent=2", threads(16)),
        _TOO_SLOW,
        budget_ratio=4.0,
        planted=reads_wait_for("throttling"),
    ),
    Case(
        "fine-below-the-rate",
        "throttling",
        "many threads read fewer records than the storage would serve",
        _HEALTHY,
        lambda values: stored(f"{latency(0.005)},{_rate(values)},retry=50ms", threads(16)),
        _LIGHT,
        budget_ratio=2.0,
    ),
)
_COLD_CACHE: Final = (
    Case(
        "cold-cache",
        "cold-cache",
        "the first epoch is read from a bucket, one record after the other, and lasts all the run",
        _BOUND,
        lambda values: stored(f"{_latency(values)},cache=100GB"),
        _TOO_SLOW,
        budget_ratio=2.0,
        planted=reads_wait_for("latency"),
    ),
    Case(
        "cache-warms-up",
        "cold-cache",
        "the first epoch is read from a bucket; during the run the next one comes from a cache",
        _BOUND,
        lambda values: stored(
            f"{_latency(values)},cache=100GB",
            records=Records(records=ceil(ROWS * values["epoch_s"] / load_s(values))),
        ),
        # Loading is the bottleneck about half of the time.
        {**_TOO_SLOW, "epoch_s": Range(3.6, 4.4)},
        finding="cache-warms-up",
        why="today's steps wait for storage, and those of the next epoch do not: either helps",
        budget_ratio=2.0,
        planted=reads_wait_for("latency"),
    ),
    Case(
        "half-warm-cache",
        "cold-cache",
        "a cache holds less than half of the records; the others are read from a bucket",
        _BOUND,
        lambda values: stored(f"{latency(load_s(values) / ROWS / 0.6)},warm=0.4"),
        _TOO_SLOW,
        budget_ratio=3.0,
        planted=reads_wait_for("latency"),
    ),
    Case(
        "fine-warm-cache",
        "cold-cache",
        "all records are in a cache before a bucket that would be too slow",
        _HEALTHY,
        lambda values: stored(f"{_latency(values)},warm=1"),
        _TOO_SLOW,
    ),
)
_SLOW_SHARD: Final = (
    Case(
        "slow-shard-of-eight",
        "slow-shard",
        "one shard of eight is ten times as slow, and a record in eight is read from it",
        _BOUND,
        lambda values: in_shards(_fast_shard_s(values), _SLOWER, together=1),
        _TOO_SLOW,
        budget_ratio=3.0,
        planted=reads_wait_for("latency"),
    ),
    Case(
        "late-shard-of-eight",
        "slow-shard",
        "one shard of eight is ten times as slow, and two batches in sixteen are read from it",
        ("jitter",),
        lambda values: in_shards(_fast_shard_s(values), _SLOWER, together=2 * ROWS),
        {"step_s": Range(0.012, 0.016), "load_ratio": Range(0.50, 0.58)},
        budget_ratio=3.0,
        planted=reads_wait_for("latency"),
    ),
    Case(
        "fine-slow-shard-behind-threads",
        "slow-shard",
        "eight threads read ahead while one of them waits for the slow shard",
        _HEALTHY,
        lambda values: in_shards(8 * _fast_shard_s(values), _SLOWER, 1, threads(8)),
        {"step_s": _STEP_S, "load_ratio": Range(0.25, 0.35)},
        budget_ratio=2.0,
    ),
)

CASES: Final = (*_LATENCY, *_BANDWIDTH, *_THROTTLING, *_COLD_CACHE, *_SLOW_SHARD)
