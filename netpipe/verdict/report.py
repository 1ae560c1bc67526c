"""Measurements for people and for programs: tables and JSON documents."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, fields
from typing import Annotated, Any, TypedDict

from rich import box
from rich.table import Column, Table

from netpipe.results.fields import Amount, Must, PositiveCount
from netpipe.results.measurement import Device, Measurement, parse_measurement
from netpipe.results.units import (
    describe_interval,
    format_amount,
    format_number,
    format_percent,
    format_seconds,
)
from netpipe.verdict.decision import find_remarks, judge
from netpipe.verdict.kinds import Verdict, VerdictKind
from netpipe.verdict.worker_sizing import cores_needed, workers_needed


class PrintedMeasurement(TypedDict, total=False):
    """The fields of a measurement that are neither in a session's result nor in a baseline."""

    #: `emulated` says whether the step is a clock.
    device: Annotated[Device, Must(properties={"emulated": {"type": "boolean"}})]
    verdict: Verdict  #: Why training waits. Not in a session's result nor in a baseline.
    #: Worker processes that would keep the step fed at 80% use; null where the verdict is
    #: inconclusive. Beside a verdict only.
    workers_needed: PositiveCount | None
    #: Cores that loading keeps busy at one batch a step; null when not measured, or where the
    #: verdict is inconclusive. Beside a verdict only.
    cores_needed: Amount | None


def measurement_document(measurement: Measurement, verdict: Verdict) -> dict[str, Any]:
    """Return the `netpipe.measurement/1` document of a measurement and its verdict."""
    document = measurement.to_document()
    document["device"]["emulated"] = measurement.device.emulated
    is_decided = verdict.kind != VerdictKind.INCONCLUSIVE
    return {
        **document,
        "verdict": {**asdict(verdict), "evidence": list(verdict.evidence)},
        "findings": [asdict(remark) for remark in find_remarks(measurement, verdict)],
        "workers_needed": workers_needed(measurement) if is_decided else None,
        "cores_needed": cores_needed(measurement) if is_decided else None,
    }


def parse_printed(document: Mapping[str, Any], where: object) -> Measurement:
    """Return the measurement of a printed document; raise an InputError if it is invalid."""
    known = [field.name for field in fields(Measurement) if field.name in document]
    values = {name: document[name] for name in ("schema", *known) if name in document}
    if "device" in values:
        device = {name: value for name, value in values["device"].items() if name != "emulated"}
        values["device"] = device
    return parse_measurement(values, where)


def new_table(title: str, *headings: str, no_wrap: bool = False) -> Table:
    """Return a table without rows, of the look that all tables of netpipe share."""
    columns = [Column(heading, no_wrap=no_wrap) for heading in headings]
    return Table(
        *columns, title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD
    )


def subject_label(measurement: Measurement) -> str:
    """Return the device and the storage, marked where times are derived and not measured."""
    device, storage = measurement.device, measurement.storage
    in_storage = f" in {storage}" if storage else ""
    return f"{device.key}{in_storage}{' (derived)' * (device.emulated or bool(storage))}"


def verdict_table(measurements: Iterable[Measurement], hosts: Iterable[str] = ()) -> Table:
    """Return a table with one row per measurement: its times, ratios, rates and verdict.

    Rows of several hosts have the host's name instead of the device.
    """
    table = new_table("why training waits")
    # The only column that may wrap in a narrow terminal.
    names = iter(hosts)
    table.add_column("host" if hosts else "device")
    for heading in ("load L", "step S0", "real step R", "headroom", "stall", "tokens/s", "MFU"):
        table.add_column(heading, no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    for measurement in measurements:
        table.add_row(
            next(names, None) or subject_label(measurement),
            format_seconds(measurement.load_s_per_batch.median),
            format_seconds(measurement.step_s.median),
            format_seconds(measurement.train_s_per_step.median),
            f"{measurement.headroom.median:.2f}",
            format_percent(measurement.stall_fraction.median),
            *(median or "-" for median, _ in describe_rates(measurement).values()),
            judge(measurement).kind,
        )
    return table


def describe_rates(measurement: Measurement) -> dict[str, tuple[str, str]]:
    """Return by label the median of each rate and its ends, or "" and why it is not known."""
    unit = " examples" * (measurement.tokens_unit == "examples")

    def describe(name: str, write: Callable[[float], str]) -> tuple[str, str]:
        if (rate := getattr(measurement, name)) is not None:
            return describe_interval(rate, write)
        return "", measurement.not_known.get(name, "an older netpipe did not measure it")

    return {
        "tokens/s": describe("tokens_per_s", lambda amount: format_amount(amount) + unit),
        "MFU": describe("mfu", lambda fraction: f"{format_number(100 * fraction, 2)}%"),
    }


def figure_lines(measurement: Measurement, verdict: Verdict) -> Iterator[str]:
    """Yield the rates and, where the verdict is decided, what would keep the step fed."""
    yield "; ".join(
        f"{label}: {median} ({note})" if median else f"{label}: not known: {note}"
        for label, (median, note) in describe_rates(measurement).items()
    )
    if verdict.kind != VerdictKind.INCONCLUSIVE:
        yield sizing_line(measurement)


def sizing_line(measurement: Measurement) -> str:
    """Return how many workers and cores would keep the step fed, and whether the host has them."""
    line = f"workers needed: {workers_needed(measurement)} (has {measurement.loader_processes})"
    needed, usable = cores_needed(measurement), measurement.host.cores
    if needed is None:
        return line
    beyond = "more than this host has: " if needed > usable else "has "
    return f"{line}; cores needed: {format_number(needed, 2)} ({beyond}{usable})"


def trace_line(measurement: Measurement) -> str:
    """Return where the trace is, and what opens it."""
    return f"trace: {measurement.trace} (open it in https://ui.perfetto.dev)"
