"""Histories whose metrics change where a test wants them to."""

from collections.abc import Iterable, Sequence

import numpy as np

from netpipe.history.entries import Entry, Series

TEST = "perf_tests/test_loading.py::test_load_time"
DEVICE, HOST = "h200-x1", "Intel Xeon, 26 cores, 200 GiB, no container"


def make_entry(number: int, metrics: dict[str, float], **changes: str) -> Entry:
    """Return the entry of one of the commits of January."""
    place = {"device": DEVICE, "host": HOST, "data": "tiny"} | changes
    date = f"2026-01-{1 + number // 24:02}T{number % 24:02}:00:00+00:00"
    return Entry(f"{number:07x}".ljust(40, "a"), date, values={TEST: metrics}, **place)


def make_entries(values: Sequence[float], metric: str = "load_cpu_ratio") -> list[Entry]:
    """Return an entry for each value of a metric."""
    return [make_entry(number, {metric: value}) for number, value in enumerate(values)]


def make_series(values: Sequence[float], metric: str = "load_cpu_ratio") -> Series:
    """Return the series of a metric's values."""
    return Series(TEST, metric, tuple(make_entries(values, metric)), tuple(values))


def noisy(levels: Iterable[float], spread: float, seed: int = 1) -> list[float]:
    """Return values that differ from their levels by a fraction that is drawn for each."""
    random = np.random.default_rng(seed)
    return [float(level * np.exp(random.normal(0, spread))) for level in levels]
