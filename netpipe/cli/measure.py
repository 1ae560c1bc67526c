"""`netpipe measure`: measure a loader with a step and say why training waits."""

import sys
from math import ceil
from typing import TYPE_CHECKING

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
            label = accelerator_label(request.accelerator)
            with show_progress(label, quiet=chosen.quiet) as progress:
                measurements.append(run_measurement(command, request, progress=progress))
    finally:  # an accelerator that fails does not lose the results of those before it
        if measurements:
            _print_results(measurements, chosen, is_list=len(requests) > 1)
    codes = [exit_code(measurement) for measurement in measurements]
    sys.exit(FAILED if FAILED in codes else max(codes))


def _print_results(
    measurements: "list[Measurement]", chosen: MeasureOptions, *, is_list: bool
) -> None:
    """Print and write the results: one measurement, or a list as one document."""
    from netpipe.verdict.decision import judge
    from netpipe.verdict.report import measurement_document

    documents = [measurement_document(one, judge(one)) for one in measurements]
    whole = {"schema": "netpipe.measurements/1", "measurements": documents}
    if chosen.as_json:
        print_json(whole if is_list else documents[0])
    else:
        print_verdicts(measurements)
    if chosen.html is not None:
        from netpipe.page.writing import write_page

        write_page([whole], chosen.html, "--html", repeat=command_line())


def print_verdicts(measurements: "list[Measurement]") -> None:
    """Print the table of measurements, then the verdict and the remarks of each."""
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
    """Return the exit code of a command that made this measurement."""
    from netpipe.verdict.decision import judge

    verdict = judge(measurement)
    if verdict.kind == "inconclusive":
        return INCONCLUSIVE
    return FINE if verdict.passes(measurement) else FAILED
