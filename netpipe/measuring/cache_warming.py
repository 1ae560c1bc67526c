"""Detect loading that became faster during the rounds, as when a cache fills up."""

from collections.abc import Sequence
from math import exp, log
from statistics import fmean, median, pvariance

from netpipe.measuring.round_log import MIN_LOAD_S, LoadingBlocks, RoundLog
from netpipe.results.measurement import CACHE_WARMS_UP, Finding
from netpipe.results.units import format_seconds

# Minimum rounds at each level, and minimum ratio of the earlier load time to the later one.
_MIN_ROUNDS = 3
_MIN_FALL_RATIO = 2.0
# Minimum fraction f of the variance of log L that lies between the two levels. With six rounds,
# normal noise exceeds it in one of 500 cases; with more, less often: t^2 = (n - 2) f / (1 - f).
_MIN_BETWEEN_FRACTION = 0.9
_MIN_IDLE_FRACTION = 0.05


def find_warm_round(loads: Sequence[LoadingBlocks]) -> int | None:
    """Return the first round after a lasting drop in the load times, or None.

    This round maximizes the likelihood of a shift in the mean of log L (Worsley, J. Am. Stat.
    Assoc. 74, 1979, p. 365). A drop does not count if the CPU use of other programs explains it, or
    if the buffers were not drained in a later round.
    """
    logs = [log(max(load.pulled.s_per_batch, MIN_LOAD_S)) for load in loads]
    splits = range(_MIN_ROUNDS, len(logs) + 1 - _MIN_ROUNDS)
    if not splits or not pvariance(logs):
        return None

    def within(first: int) -> float:
        parts = logs[:first], logs[first:]
        return sum(len(part) * pvariance(part) for part in parts) / len(logs)

    first = min(splits, key=within)
    idle_fractions = [max(_MIN_IDLE_FRACTION, 1 - load.busy_fraction) for load in loads]
    explained_ratio = median(idle_fractions[first:]) / median(idle_fractions[:first])
    fall_ratio = exp(fmean(logs[:first]) - fmean(logs[first:]))
    is_clear = within(first) <= (1 - _MIN_BETWEEN_FRACTION) * pvariance(logs)
    is_large = fall_ratio >= _MIN_FALL_RATIO * max(1.0, explained_ratio)
    return first if is_clear and is_large and all(load.drained for load in loads[first:]) else None


def describe_warm_up(log: RoundLog, first: int) -> Finding:
    """Return a finding with both load times, and the batches between which they changed."""
    cold, warm = log.loads[:first], log.loads[first:]
    cold_s, warm_s = (median(load.pulled.s_per_batch for load in part) for part in (cold, warm))
    return Finding(
        CACHE_WARMS_UP,
        f"loading a batch took {format_seconds(cold_s)} in {len(cold)} rounds and "
        f"{format_seconds(warm_s)} in the {len(warm)} after them, as when a cache has been filled; "
        f"it changed between batches {cold[-1].first_batch} and {warm[0].first_batch}. All figures "
        "are those of the later rounds: if training reads data that no cache holds, measure with a "
        "cold cache and more data than the run reads",
    )
