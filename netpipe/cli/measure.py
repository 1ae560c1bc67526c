"""`netpipe measure`: why training waits."""

import sys
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from netpipe.cli.console import (
    FAILED,
    FINE,
    INCONCLUSIVE,
    bold_first,
    command_line,
    notes,
    output,
    print_json,
    report_errors,
)
from netpipe.cli.options import MeasureOptions, measure_options
from netpipe.cli.progress_display import show_progress

if TYPE_CHECKING:
    from netpipe.results.measurement import Measurement


@click.command()
@measure_options(20.0, "Seconds of rounds.")
@report_errors
def measure(chosen: MeasureOptions) -> None:
    """Measure a loader with a step and say why training waits.

    TARGET is package.module:name or path/to/file.py:name, a callable without arguments. The
    accelerator may be several, with commas between them.
    """
    from netpipe.device.emulated_names import accelerator_label, parse_accelerators
    from netpipe.measuring.child import child_command
    from netpipe.session.parent import run_measurement

    requests = [chosen.request(one) for one in parse_accelerators(chosen.accelerator)]
    command = child_command(chosen.loader, chosen.step, chosen.loop)
    if not chosen.quiet:
        limit_s = sum(request.limit_s for request in requests)
        notes.print(
            f"{chosen.budget:g} s of rounds, at most {ceil(limit_s / 60)} min in all, with "
            f"{chosen.start_limit:g} s for a start of the loader"
        )
    measurements: list[Measurement] = []
    try:
        for request in requests:
            with show_progress(
                accelerator_label(request.accelerator), quiet=chosen.quiet
            ) as progress:
                measurements.append(run_measurement(command, request, progress=progress))
    finally:  # one that fails takes nothing from those before it
        if measurements:
            _print_measurements(measurements, listed=len(requests) > 1, as_json=chosen.as_json)
            if chosen.html is not None:
                _write_page(measurements, chosen.html)
    codes = [exit_code(one) for one in measurements]
    sys.exit(FAILED if FAILED in codes else max(codes))


def _print_measurements(measurements: "list[Measurement]", *, listed: bool, as_json: bool) -> None:
    if as_json:
        _print_documents(measurements, listed=listed)
    else:
        print_verdicts(measurements)


def _print_documents(measurements: "list[Measurement]", *, listed: bool) -> None:
    """Print one measurement as its document, those of a list as one document of them."""
    every = _every_document(measurements)
    print_json(every if listed else every["measurements"][0])


def _write_page(measurements: "list[Measurement]", path: Path) -> None:
    from netpipe.page.writing import write_page

    write_page([_every_document(measurements)], path, "--html", repeat=command_line())


def _every_document(measurements: "list[Measurement]") -> dict[str, Any]:
    from netpipe.verdict.decision import judge
    from netpipe.verdict.report import measurement_document

    documents = [measurement_document(one, judge(one)) for one in measurements]
    return {"schema": "netpipe.measurements/1", "measurements": documents}


def print_verdicts(measurements: "list[Measurement]") -> None:
    """Print the table of measurements, then what there is to say of each."""
    from netpipe.verdict.decision import find_remarks, judge
    from netpipe.verdict.report import device_label, sizing_line, trace_line, verdict_table

    output.print(verdict_table(measurements))
    for one in measurements:
        verdict = judge(one)
        output.print(bold_first(device_label(one.device), f": {verdict.message}"))
        derived = [f"S0 is derived: {one.device.kind}"] if one.device.emulated else []
        sizing = [sizing_line(one)] if verdict.kind != "inconclusive" else []
        for line in (*derived, *verdict.evidence, *sizing, f"next: {verdict.next}"):
            output.print(f"  {line}")
        for remark in find_remarks(one, verdict):
            output.print(f"  {remark.name}: {remark.message}")
        if one.trace:
            output.print(f"  {trace_line(one)}", soft_wrap=True)


def exit_code(measurement: "Measurement") -> int:
    """Return how a command ends that measured this."""
    from netpipe.verdict.decision import judge

    verdict = judge(measurement)
    if verdict.kind == "inconclusive":
        return INCONCLUSIVE
    return FINE if verdict.passes(measurement) else FAILED
