"""`netpipe measure`: measure a loader with a step and say why training waits."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Any

import click

from netpipe.cli.console import (
    FAILED,
    FINE,
    INCONCLUSIVE,
    as_html,
    as_json,
    bold_first,
    folder,
    notes,
    output,
    print_json,
    quiet_option,
    write_html,
)
from netpipe.cli.progress_display import show_progress
from netpipe.measuring.request import MeasureRequest
from netpipe.results.measurement import Measurement
from netpipe.verdict import decision
from netpipe.verdict.kinds import VerdictKind
from netpipe.verdict.report import (
    device_label,
    measurement_document,
    sizing_line,
    trace_line,
    verdict_table,
)
from netpipe.whole_file import refuse_unwritable, writable_folder

_Command = Callable[..., None]


@dataclass(frozen=True)
class MeasureOptions:
    """The options that `measure` and `diagnose` share; times are in seconds.

    Attributes:
        loop: The loop's target; None: the harness's own loop.
        accelerator: "auto", an emulated one, or a list of them.
        flops_per_step: None: the step knows them.
    """

    loader: str
    step: str | None
    loop: str | None
    accelerator: str
    flops_per_step: float | None
    mfu: float
    budget: float
    batch_limit: float
    start_limit: float
    html: Path | None
    trace: Path | None
    quiet: bool
    as_json: bool

    def request(self, accelerator: str) -> MeasureRequest:
        """Return the request of a session that measures.

        Raises:
            InputError: The page or the trace cannot be written.
            MisuseError: A value is outside its range.
        """
        if self.html is not None:
            refuse_unwritable(self.html, "--html")
        return MeasureRequest(
            accelerator=accelerator,
            budget_s=self.budget,
            batch_limit_s=self.batch_limit,
            start_limit_s=self.start_limit,
            flops_per_step=self.flops_per_step,
            mfu=self.mfu,
            trace=str(writable_folder(self.trace, "--trace")) if self.trace else "",
        )


def measure_options(budget_s: float, budget_help: str) -> Callable[[_Command], _Command]:
    """Give a command the options of a `MeasureOptions`; --budget has a default and a help text."""
    options = [
        click.option("--loader", required=True, metavar="TARGET", help="Makes the loader."),
        click.option("--step", metavar="TARGET", help="Makes (state, step)."),
        click.option("--loop", metavar="TARGET", help="Your training loop(batches, state, step)."),
        click.option(
            "--accelerator", default="auto", show_default=True,
            help="auto, emulated:36ms, emulated:8xh100; @25GB/s adds a copy to the device.",
        ),
        click.option(
            "--flops-per-step", type=float,
            help="FLOPs of a step, for accelerators that are known by their peak.",
        ),
        click.option(
            "--mfu", type=float, default=0.4, show_default=True,
            help="The part of its peak that such an accelerator reaches.",
        ),
        click.option("--budget", type=float, default=budget_s, show_default=True, help=budget_help),
        click.option(
            "--batch-limit", type=float, default=10.0, show_default=True,
            help="A loader that gives no batch for so many seconds hangs.",
        ),
        click.option(
            "--start-limit", type=float, default=600.0, show_default=True,
            help="Seconds until its first batch must be there: indexes are built, workers start.",
        ),
        as_html,
        click.option(
            "--trace", type=folder, metavar="DIR",
            help="Keep a profiler's trace of some real steps in a folder, for ui.perfetto.dev.",
        ),
        quiet_option,
        as_json,
    ]  # fmt: skip

    def decorate(command: _Command) -> _Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


@click.command()
@measure_options(20.0, "Seconds of rounds.")
def measure(**values: Any) -> None:
    """Measure a loader with a step and say why training waits.

    TARGET is package.module:name or path/to/file.py:name, a callable without arguments. Several
    accelerators may be given, separated by commas.
    """
    from netpipe.device.emulated_names import accelerator_label, parse_accelerators
    from netpipe.measuring.child import child_command
    from netpipe.session.parent import run_measurement

    chosen = MeasureOptions(**values)
    requests = [chosen.request(name) for name in parse_accelerators(chosen.accelerator)]
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
    finally:
        # After a failure, the measurements before it are still reported.
        if measurements:
            _report(measurements, chosen, listed=len(requests) > 1)
    codes = list(map(exit_code, measurements))
    sys.exit(FAILED if FAILED in codes else max(codes))


def _report(measurements: list[Measurement], chosen: MeasureOptions, *, listed: bool) -> None:
    """Print the measurements, and write their page if one was asked for."""
    documents = [
        measurement_document(measured, decision.judge(measured)) for measured in measurements
    ]
    document = {"schema": "netpipe.measurements/1", "measurements": documents}
    if chosen.as_json:
        print_json(document if listed else documents[0])
    else:
        print_verdicts(measurements)
    if chosen.html is not None:
        write_html(document, chosen.html)


def print_verdicts(measurements: list[Measurement]) -> None:
    """Print the table of measurements, then the verdict and the evidence of each."""
    output.print(verdict_table(measurements))
    for measurement in measurements:
        verdict, device = decision.judge(measurement), measurement.device
        output.print(bold_first(device_label(device), f": {verdict.message}"))
        lines = [f"S0 is derived: {device.kind}"] if device.emulated else []
        lines += verdict.evidence
        if verdict.kind != VerdictKind.INCONCLUSIVE:
            lines.append(sizing_line(measurement))
        lines.append(f"next: {verdict.next}")
        remarks = decision.find_remarks(measurement, verdict)
        for line in (*lines, *(f"{remark.name}: {remark.message}" for remark in remarks)):
            output.print(f"  {line}")
        if measurement.trace:
            output.print(f"  {trace_line(measurement)}", soft_wrap=True)


def exit_code(measurement: Measurement) -> int:
    """Return the exit code of a command for its measurement."""
    verdict = decision.judge(measurement)
    if verdict.kind == VerdictKind.INCONCLUSIVE:
        return INCONCLUSIVE
    return FINE if verdict.passes(measurement) else FAILED
