"""Quantities of measurements that stall, for several tests."""

from typing import Any

from netpipe.results.measurement import Waits

SYNCED: dict[str, Any] = {"sync_probe_fraction": 1.0}
# L = 10 ms and S0 = 30 ms, so E = 8 ms is more than half of the smaller.
SERIAL: dict[str, Any] = {"train_s": 0.038}


def waits(p50: float) -> Waits:
    """Make waits whose median is `p50`."""
    return Waits(p50=p50, p95=2 * p50, p99=3 * p50, cv=0.1)
