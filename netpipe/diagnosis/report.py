"""A diagnosis for people: its sentence and its tables."""

from collections.abc import Iterator

from rich.table import Table

from netpipe.diagnosis.diagnosis import Diagnosis, Findings, Intervention
from netpipe.results.units import (
    format_number,
    format_percent,
    format_ratio_interval,
    format_seconds,
    format_seconds_interval,
)
from netpipe.verdict.report import new_table

_MOST_STAGES = 8


def tables(diagnosis: Diagnosis) -> Iterator[Table]:
    """Yield the tables in the order in which they are read; none is empty."""
    findings = diagnosis.findings
    if findings.stages:
        yield _stages(findings)
    yield _interventions(findings)
    if findings.what_if:
        yield _what_if(findings)
    if diagnosis.needs:
        yield _needs(diagnosis)


def closing(findings: Findings) -> str:
    """Say what could not be done, what was tried, and how that went beside its prediction."""
    tried = findings.verified
    says = f"tried: {tried.says}" if tried else f"nothing was tried: {findings.unverified}"
    return "\n".join([*(f"remark: {one}" for one in findings.remarks), says])


def _stages(findings: Findings) -> Table:
    lane = format_seconds(findings.lane_s_per_batch.median)
    table = new_table(f"stages: what a batch takes in one thread of one process, {lane} in all")
    table.add_column("stage", overflow="fold")
    for heading in ("share", "time", "CPU time"):
        table.add_column(heading, no_wrap=True, justify="right")
    table.add_column("without it", no_wrap=True)
    table.add_column("runs in", no_wrap=True)
    table.add_column("made at", overflow="fold")
    for one in findings.stages[:_MOST_STAGES]:
        table.add_row(
            one.name,
            format_percent(one.fraction),
            format_seconds(one.s_per_batch),
            format_seconds(one.cpu_s_per_batch),
            format_seconds(one.without_s_per_batch.median) if one.without_s_per_batch else "",
            one.section,
            one.made_at,
        )
    return table


def _interventions(findings: Findings) -> Table:
    table = new_table("interventions: what was changed to find out, in turns with the loader")
    table.add_column("change", overflow="fold")
    table.add_column("times as fast", no_wrap=True)
    table.add_column("", overflow="fold")
    for one in findings.interventions:
        ratio = format_ratio_interval(one.speedup) if one.speedup else ""
        table.add_row(one.what, ratio, f"{one.says}{_batch(one)}")
    return table


def _what_if(findings: Findings) -> Table:
    table = new_table("what if: predicted load time of a batch")
    table.add_column("with", overflow="fold")
    table.add_column("load time", no_wrap=True)
    table.add_column("headroom", no_wrap=True)
    now = findings.load_s_per_batch
    table.add_row("the loader as it is (measured)", format_seconds_interval(now), "")
    for one in findings.what_if:
        room = "" if one.headroom is None else f"{one.headroom.median:.2f}"
        table.add_row(one.change, format_seconds_interval(one.load_s_per_batch), room)
    return table


def _needs(diagnosis: Diagnosis) -> Table:
    table = new_table("what each accelerator needs (step times are derived)")
    table.add_column("accelerator", no_wrap=True)
    for heading in ("step", "batches/s", "workers", "cores", "headroom now"):
        table.add_column(heading, no_wrap=True, justify="right")
    for one in diagnosis.needs:
        table.add_row(
            one.accelerator,
            format_seconds(one.step_s),
            format_number(one.batches_per_s),
            str(one.workers),
            f"{one.cores:.2g}",
            f"{one.headroom:.2f}",
        )
    return table


def _batch(one: Intervention) -> str:
    if one.before_s_per_batch is None or one.after_s_per_batch is None:
        return ""
    after_s, before_s = one.after_s_per_batch.median, one.before_s_per_batch.median
    return f": {format_seconds(after_s)} instead of {format_seconds(before_s)} a batch"
