"""The tables of a diagnosis, and the lines below them."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from netpipe.diagnosis.diagnosis import Findings, Intervention, Prediction, Reads
from netpipe.reporting.tables import Cell, Figure, Table, format_ratio, interval_figure
from netpipe.results.measurement import Measurement
from netpipe.results.start_up import START_PARTS, StartUp
from netpipe.results.units import format_bytes, format_number, format_percent, format_seconds
from netpipe.verdict.decision import find_remarks, judge

_MAX_STAGES: Final = 8


def tables(findings: Findings) -> Iterator[Table]:
    """Yield the tables of a diagnosis that have rows, in reading order."""
    if findings.stages:
        stages = build_stage_table(findings)
        yield replace(stages, rows=stages.rows[:_MAX_STAGES])
    if findings.interventions:
        yield build_intervention_table(findings.interventions)
    if findings.reads:
        yield build_read_table(findings.reads)
    if findings.what_if:
        yield build_prediction_table(findings.what_if)
    if findings.start_up:
        yield build_start_up_table(findings.start_up)


def build_stage_table(findings: Findings) -> Table:
    """Return a table of the stages and their times."""
    total = format_seconds(findings.lane_s_per_batch.median)
    rows = [
        {
            "stage": Cell(
                stage.name, "" if stage.function in stage.name else stage.function, is_code=True
            ),
            "share": Figure(format_percent(stage.fraction)),
            "time": Figure(
                format_seconds(stage.s_per_batch) + ", sampled" * (stage.by == "sampling")
            ),
            "CPU time": Figure(format_seconds(stage.cpu_s_per_batch)),
            "without it": interval_figure(stage.without_s_per_batch),
            "runs in": Cell(stage.section),
            "made at": Cell(stage.made_at, is_code=True),
        }
        for stage in findings.stages
    ]
    return Table("Stages", f"Time of a batch in a single thread, {total} in all.", rows)


def build_intervention_table(interventions: Sequence[Intervention]) -> Table:
    """Return a table of the interventions and their effects."""
    caption = "Each change was measured in turns with the run that it changes."
    rows = [
        {
            "change": Cell(made.label, made.what),
            "before": interval_figure(made.before_s_per_batch),
            "after": interval_figure(made.after_s_per_batch),
            "times as fast": interval_figure(made.speedup, format_ratio),
            "result": Cell(made.says),
        }
        for made in interventions
    ]
    return Table("Interventions", caption, rows)


def build_read_table(reads: Reads) -> Table:
    """Return a table of the time per read for increasing numbers of reads in flight."""
    size = f", of {format_bytes(reads.bytes_per_read)} each" if reads.bytes_per_read else ""
    now = f"the loader has {reads.in_flight} in flight{size}"
    rows = [
        {
            "in flight": Figure(str(level.in_flight)),
            "time of a read": Figure(format_seconds(level.s_per_read)),
            "reads/s": Figure(format_number(level.reads_per_s)),
        }
        for level in reads.levels
    ]
    return Table("Reads at the same time", f"Measured in one process; {now}.", rows)


def build_prediction_table(predictions: Sequence[Prediction]) -> Table:
    """Return a table of the changes that may help."""
    rows = [{"with": Cell(guess.change), "expected": Cell(guess.expected)} for guess in predictions]
    return Table("What if", "Load time with a change, by a model of the loader.", rows)


def build_start_up_table(start: StartUp) -> Table:
    """Return a table of the parts of the start-up, with the reason if it is slow."""
    whole_s = start.total_s or 1.0
    rows = [
        {
            "part": Cell(name),
            "time": Figure("not seen" if part_s is None else format_seconds(part_s)),
            "share": Figure("" if part_s is None else format_percent(part_s / whole_s)),
        }
        for name, part_s in ((name, vars(start)[part]) for part, (name, _) in START_PARTS.items())
    ]
    caption = f"Start-up: {format_seconds(start.total_s)} from the imports to the first batch."
    if why_slow := start.why_slow():
        caption += f" slow-start: {why_slow}."
    return Table("Start-up", caption, rows)


def closing(findings: Findings, measurement: Measurement | None = None) -> str:
    """Return the lines after the tables: findings, remarks, and the result of the tried change.

    The findings concern the loader with its step, as in the output of `netpipe measure`.
    """
    found = find_remarks(measurement, judge(measurement)) if measurement else ()
    lines = [f"{each.name}: {each.message}" for each in found]
    lines += [f"remark: {remark}" for remark in findings.remarks]
    if findings.verified:
        lines.append(f"tried: {findings.verified.says}")
    else:
        lines.append(f"nothing was tried: {findings.unverified}")
    return "\n".join(lines)
