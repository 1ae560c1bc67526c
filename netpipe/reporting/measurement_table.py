"""The table of measurements, and the lines below it."""

from collections.abc import Callable, Iterable, Iterator

from rich.table import Table

from netpipe.reporting.tables import TerminalTable
from netpipe.results.measurement import Measurement
from netpipe.results.units import (
    describe_interval,
    format_amount,
    format_number,
    format_percent,
    format_seconds,
)
from netpipe.verdict.decision import judge
from netpipe.verdict.document import subject_label
from netpipe.verdict.kinds import Verdict, VerdictKind
from netpipe.verdict.worker_sizing import cores_needed, workers_needed


def verdict_table(measurements: Iterable[Measurement], hosts: Iterable[str] = ()) -> Table:
    """Return a table with one row per measurement: its times, ratios, rates and verdict.

    If `hosts` is given, each row shows the name of its host instead of the device.
    """
    table = TerminalTable(
        "why training waits", "host" if hosts else "device", "load L", "step S0", "real step R",
        "headroom", "stall", "tokens/s", "MFU", "verdict",
    )  # fmt: skip
    names = iter(hosts)
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
    """Return each rate's median and interval by label, or "" and why the rate is not known."""
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
    """Yield the rates and, if the verdict is decided, excess workers and the cores needed."""
    yield "; ".join(
        f"{label}: {median} ({note})" if median else f"{label}: not known: {note}"
        for label, (median, note) in describe_rates(measurement).items()
    )
    if verdict.kind != VerdictKind.INCONCLUSIVE and (sizes := list(_describe_sizes(measurement))):
        yield "; ".join(sizes)


def _describe_sizes(measurement: Measurement) -> Iterator[str]:
    workers, has = workers_needed(measurement), measurement.loader_processes
    # If there are too few workers, `Verdict.next` advises more.
    if workers is not None and workers < has:
        yield f"workers needed: {workers} (has {has})"
    needed, usable = cores_needed(measurement), measurement.host.cores
    if needed is not None:
        beyond = "more than this host has: " if needed > usable else "has "
        yield f"cores needed: {format_number(needed, 2)} ({beyond}{usable})"


def trace_line(measurement: Measurement) -> str:
    """Return a line with the path of the trace and the web page that opens it."""
    return f"trace: {measurement.trace} (open it in https://ui.perfetto.dev)"
