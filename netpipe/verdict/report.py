"""Measurements for people and for programs: tables and JSON documents."""

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from rich import box
from rich.table import Table

from netpipe.results.measurement import Device, Measurement
from netpipe.results.units import format_number, format_percent, format_seconds
from netpipe.verdict.decision import find_remarks, judge
from netpipe.verdict.kinds import Verdict
from netpipe.verdict.worker_sizing import cores_needed, workers_needed


def measurement_document(measurement: Measurement, verdict: Verdict) -> dict[str, Any]:
    """Return the `netpipe.measurement/1` document of a measurement and its verdict."""
    document = measurement.to_document()
    document["device"]["emulated"] = measurement.device.emulated
    decided = verdict.kind != "inconclusive"
    return {
        **document,
        "verdict": {**asdict(verdict), "evidence": list(verdict.evidence)},
        "findings": [asdict(one) for one in find_remarks(measurement, verdict)],
        "workers_needed": workers_needed(measurement) if decided else None,
        "cores_needed": cores_needed(measurement) if decided else None,
    }


def new_table(title: str) -> Table:
    """Return an empty table of the look that all tables of netpipe share."""
    return Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)


def device_label(device: Device) -> str:
    """Return a device's key, marked when its step time was derived and not measured."""
    return f"{device.key} (derived)" if device.emulated else device.key


def verdict_table(measurements: Iterable[Measurement]) -> Table:
    """Return one row for each measurement: its times, its ratios, why it waits."""
    table = new_table("why training waits")
    table.add_column("device")  # where it gets too wide, this may take a second line
    for heading in ("load L", "step S0", "real step R", "headroom", "stall"):
        table.add_column(heading, no_wrap=True)
    table.add_column("workers needed")
    table.add_column("verdict", no_wrap=True)
    for one in measurements:
        kind = judge(one).kind
        table.add_row(
            device_label(one.device),
            format_seconds(one.load_s_per_batch.median),
            format_seconds(one.step_s.median),
            format_seconds(one.train_s_per_step.median),
            f"{one.headroom.median:.2f}",
            format_percent(one.stall_fraction.median),
            _workers(one) if kind != "inconclusive" else "",
            kind,
        )
    return table


def sizing_line(measurement: Measurement) -> str:
    """Say how many workers and cores would keep the step fed, and whether this host has them."""
    line = f"workers needed: {_workers(measurement)}"
    cores, has = cores_needed(measurement), measurement.host.cores
    if cores is None:
        return line
    beyond = "more than this host has: " if cores > has else "has "
    return f"{line}; cores needed: {format_number(cores, 2)} ({beyond}{has})"


def trace_line(measurement: Measurement) -> str:
    """Say where a trace is, and what opens it."""
    return f"trace: {measurement.trace} (open it in https://ui.perfetto.dev)"


def _workers(measurement: Measurement) -> str:
    return f"{workers_needed(measurement)} (has {measurement.loader_processes})"
