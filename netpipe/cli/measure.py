"""`netpipe measure`: measure a loader with a step and say why training waits."""

import sys
from math import ceil
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

    TARGET is package.module:name or path/to/file.py:name, a callable without arguments. Several
    accelerators may be given, separated by commas.
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
    finally:
        # After a failure, the measurements before it are still reported.
        if measurements:
            _report(measurements, chosen, listed=len(requests) > 1)
    codes = list(map(exit_code, measurements))
    sys.exit(FAILED if FAILED in codes else max(codes))


def _report(measurements: "list[Measurement]", chosen: MeasureOptions, *, listed: bool) -> None:
    """Print the measurements, and write their page if one was asked for."""
    if chosen.as_json:
        document = _measurements_document(measurements)
        print_json(document if listed else document["measurements"][0])
    else:
        print_verdicts(measurements)
    if chosen.html is not None:
        from netpipe.page.rendering import write_page

        document = _measurements_document(measurements)
        write_page([document], chosen.html, "--html", repeat=command_line())


def _measurements_document(measurements: "list[Measurement]") -> dict[str, Any]:
    from netpipe.verdict.decision import judge
    from netpipe.verdict.report import measurement_document

    documents = [measurement_document(each, judge(each)) for each in measurements]
    return {"schema": "netpipe.measurements/1", "measurements": documents}


def print_verdicts(measurements: "list[Measurement]") -> None:
    """Print the table of measurements, then the verdict and the evidence of each."""
    from netpipe.verdict.decision import find_remarks, judge
    from netpipe.verdict.kinds import VerdictKind
    from netpipe.verdict.report import device_label, sizing_line, trace_line, verdict_table

    output.print(verdict_table(measurements))
    for measurement in measurements:
        verdict, device = judge(measurement), measurement.device
        output.print(bold_first(device_label(device), f": {verdict.message}"))
        derived = [f"S0 is derived: {device.kind}"] if device.emulated else []
        is_decided = verdict.kind != VerdictKind.INCONCLUSIVE
        sizing = [sizing_line(measurement)] if is_decided else []
        for line in (*derived, *verdict.evidence, *sizing, f"next: {verdict.next}"):
            output.print(f"  {line}")
        for remark in find_remarks(measurement, verdict):
            output.print(f"  {remark.name}: {remark.message}")
        if measurement.trace:
            output.print(f"  {trace_line(measurement)}", soft_wrap=True)


def exit_code(measurement: "Measurement") -> int:
    """Return the exit code of a command for its measurement."""
    from netpipe.verdict.decision import judge
    from netpipe.verdict.kinds import VerdictKind

    verdict = judge(measurement)
    if verdict.kind == VerdictKind.INCONCLUSIVE:
        return INCONCLUSIVE
    return FINE if verdict.passes(measurement) else FAILED
