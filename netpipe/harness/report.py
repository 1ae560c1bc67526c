"""Measurements for people and for programs: tables and JSON documents."""

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from rich.table import Table

from netpipe.harness.measurement import Measurement
from netpipe.harness.stall import Verdict, judge, remarks
from netpipe.harness.units import percent, ratio_interval, seconds


def measurement_document(measurement: Measurement, verdict: Verdict) -> dict[str, Any]:
    """Return the `netpipe.measurement/1` document of a measurement and its verdict."""
    document = measurement.to_document()
    document["device"]["emulated"] = measurement.device.emulated
    return {
        **document,
        "verdict": {**asdict(verdict), "evidence": list(verdict.evidence)},
        "findings": [asdict(one) for one in remarks(measurement, verdict)],
    }


def verdict_table(measurements: Iterable[Measurement]) -> Table:
    """Return one row for each measurement: its times, its ratios, why it waits."""
    table = Table(title="why training waits", title_justify="left")
    for heading in ("device", "load L", "step S0", "real step R"):
        table.add_column(heading, no_wrap=True)
    for heading in ("headroom S0/L", "stall", "verdict"):
        table.add_column(heading)
    for one in measurements:
        table.add_row(
            one.device.key + (" (derived)" if one.device.emulated else ""),
            seconds(one.load_s_per_batch.median),
            seconds(one.step_s.median),
            seconds(one.train_s_per_step.median),
            ratio_interval(one.headroom),
            percent(one.stall_fraction.median),
            judge(one).kind,
        )
    return table
