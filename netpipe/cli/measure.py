"""`netpipe measure`: why training waits."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from netpipe.cli.console import (
    FAILED,
    FINE,
    INCONCLUSIVE,
    as_html,
    as_json,
    bold_first,
    clear_errors,
    command_line,
    folder,
    output,
    print_json,
)
from netpipe.cli.live import live, quietly
from netpipe.whole_file import writable_folder

if TYPE_CHECKING:
    from netpipe.harness.measurement import Measurement


@click.command()
@click.option("--loader", required=True, metavar="TARGET", help="Makes the loader.")
@click.option("--step", metavar="TARGET", help="Makes (state, step).")
@click.option("--loop", metavar="TARGET", help="Your training loop(batches, state, step).")
@click.option(
    "--accelerator", default="auto", show_default=True,
    help="auto, emulated:36ms, emulated:8xh100, or a list; @25GB/s adds a copy to the device.",
)  # fmt: skip
@click.option(
    "--flops-per-step", type=float, help="FLOPs of a step, for an emulated accelerator with a name."
)
@click.option(
    "--mfu", type=float, default=0.4, show_default=True,
    help="The part of its peak that an emulated accelerator reaches.",
)  # fmt: skip
@click.option("--budget", type=float, default=20.0, show_default=True, help="Seconds of rounds.")
@click.option(
    "--batch-limit", type=float, default=10.0, show_default=True,
    help="A loader that gives no batch for so many seconds hangs.",
)  # fmt: skip
@as_html
@click.option(
    "--trace", type=folder, metavar="DIR",
    help="Keep a profiler's trace of some real steps in a folder, for ui.perfetto.dev.",
)  # fmt: skip
@quietly
@as_json
@clear_errors
def measure(
    loader: str,
    step: str | None,
    loop: str | None,
    accelerator: str,
    flops_per_step: float | None,
    mfu: float,
    budget: float,
    batch_limit: float,
    html: Path | None,
    trace: Path | None,
    quiet: bool,
    as_json: bool,
) -> None:
    """Measure a loader with a step and say why training waits.

    TARGET is package.module:name or path/to/file.py:name, a callable without arguments.
    """
    from netpipe.harness.emulation import accelerator_label, parse_accelerators
    from netpipe.harness.session import SessionRequest, child_command, measured
    from netpipe.whole_file import refuse_unwritable

    if html is not None:
        refuse_unwritable(html, "--html")
    asked = SessionRequest(
        "measure",
        budget_s=budget,
        batch_limit_s=batch_limit,
        flops_per_step=flops_per_step,
        mfu=mfu,
        trace=str(writable_folder(trace, "--trace")) if trace else "",
    )
    requests = [replace(asked, accelerator=one) for one in parse_accelerators(accelerator)]
    command = child_command(loader, step, loop)
    measurements: list[Measurement] = []
    try:
        for request in requests:
            with live(accelerator_label(request.accelerator), quiet=quiet) as progress:
                measurements.append(measured(command, request, progress=progress))
    finally:  # one that fails takes nothing from those before it
        if measurements:
            _print_measurements(measurements, listed=len(requests) > 1, as_json=as_json)
            if html is not None:
                _write_page(measurements, html)
    codes = [exit_code(one) for one in measurements]
    sys.exit(FAILED if FAILED in codes else max(codes))


def _print_measurements(measurements: "list[Measurement]", *, listed: bool, as_json: bool) -> None:
    if as_json:
        _print_documents(measurements, listed=listed)
    else:
        _print_verdicts(measurements)


def _print_documents(measurements: "list[Measurement]", *, listed: bool) -> None:
    """Print one measurement as its document, those of a list as one document of them."""
    every = _every_document(measurements)
    print_json(every if listed else every["measurements"][0])


def _write_page(measurements: "list[Measurement]", path: Path) -> None:
    from netpipe.page.writing import write_page

    write_page([_every_document(measurements)], path, "--html", repeat=command_line())


def _every_document(measurements: "list[Measurement]") -> dict[str, Any]:
    from netpipe.harness.report import measurement_document
    from netpipe.harness.stall import judge

    documents = [measurement_document(one, judge(one)) for one in measurements]
    return {"schema": "netpipe.measurements/1", "measurements": documents}


def _print_verdicts(measurements: "list[Measurement]") -> None:
    from netpipe.harness.report import device_label, sizing_line, trace_line, verdict_table
    from netpipe.harness.stall import judge, remarks

    output.print(verdict_table(measurements))
    for one in measurements:
        verdict = judge(one)
        output.print(bold_first(device_label(one.device), f": {verdict.message}"))
        derived = [f"S0 is derived: {one.device.kind}"] if one.device.emulated else []
        for line in (*derived, *verdict.evidence, sizing_line(one), f"next: {verdict.next}"):
            output.print(f"  {line}")
        for remark in remarks(one, verdict):
            output.print(f"  {remark.name}: {remark.message}")
        if one.trace:
            output.print(f"  {trace_line(one)}", soft_wrap=True)


def exit_code(measurement: "Measurement") -> int:
    """Return how a command ends that measured this."""
    from netpipe.harness.stall import judge

    verdict = judge(measurement)
    if verdict.kind == "inconclusive":
        return INCONCLUSIVE
    return FINE if verdict.passes(measurement) else FAILED
