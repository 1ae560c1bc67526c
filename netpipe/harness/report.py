"""Measurements for people and for programs: tables and JSON documents."""

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from rich import box
from rich.table import Table

from netpipe.harness.measurement import Measurement
from netpipe.harness.stall import Verdict, judge, remarks
from netpipe.harness.units import percent, seconds


def measurement_document(measurement: Measurement, verdict: Verdict) -> dict[str, Any]:
    """Return the `netpipe.measurement/1` document of a measurement and its verdict."""
    document = measurement.to_document()
    document["device"]["emulated"] = measurement.device.emulated
    return {
        **document,
        "verdict": {**asdict(verdict), "evidence": list(verdict.evidence)},
        "findings": [asdict(one) for one in remarks(measurement, verdict)],
    }


def new_table(title: str) -> Table:
    """Return an empty table of the look that all tables of netpipe share."""
    return Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)


def verdict_table(measurements: Iterable[Measurement]) -> Table:
    """Return one row for each measurement: its times, its ratios, why it waits."""
    table = new_table("why training waits")
    for heading in ("device", "load L", "step S0", "real step R", "headroom", "stall", "verdict"):
        table.add_column(heading, no_wrap=True)
    for one in measurements:
        table.add_row(
            one.device.key + (" (derived)" if one.device.emulated else ""),
            seconds(one.load_s_per_batch.median),
            seconds(one.step_s.median),
            seconds(one.train_s_per_step.median),
            f"{one.headroom.median:.2f}",
            percent(one.stall_fraction.median),
            judge(one).kind,
        )
    return table
