"""`netpipe measure`: measure a loader with a step and say why training waits."""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypedDict

import click

from netpipe.cli.console import (
    FAILED,
    FINE,
    INCONCLUSIVE,
    bold_first,
    html_option,
    notes,
    output,
    path_type,
    print_json,
    reading_options,
    seconds_option,
    target_type,
    write_html,
)
from netpipe.cli.progress_display import show_progress
from netpipe.device.emulated_names import parse_accelerators
from netpipe.files.whole_file import refuse_unwritable, writable_folder
from netpipe.jobs.targets import Target, name_targets
from netpipe.measuring.measure_request import MeasureRequest
from netpipe.reporting.measurement_table import figure_lines, trace_line, verdict_table
from netpipe.results.fields import Must
from netpipe.results.measurement import Measurement
from netpipe.results.units import format_seconds
from netpipe.storage.profiles import parse_storage
from netpipe.verdict import decision
from netpipe.verdict.document import measurement_document, subject_label
from netpipe.verdict.kinds import VerdictKind

_Command = Callable[..., None]


def _check_storage(_: click.Context, __: click.Parameter, name: str | None) -> str | None:
    return parse_storage(name).name if name else None


_OPTIONS: Final = (
    click.argument("overrides", nargs=-1, metavar="[KEY=VALUE]..."),
    click.option("--loader", type=target_type, metavar="TARGET", help="Makes the loader."),
    click.option("--step", type=target_type, metavar="TARGET", help="Makes (state, step)."),
    click.option(
        "--loop", type=target_type, metavar="TARGET",
        help="A training loop(batches, state, step).",
    ),
    click.option(
        "--maxtext", type=path_type, metavar="CONFIG.yml",
        help="Loader and step of a MaxText configuration; KEY=VALUE overrides its keys.",
    ),
    click.option(
        "--accelerator", default="auto", show_default=True,
        help="auto, emulated:36ms, emulated:8xh100; @25GB/s adds a copy to the device.",
    ),
    click.option(
        "--storage", metavar="NAME", callback=_check_storage,
        help="Read through a stand-in for a storage: object-store or object-store,latency=50ms.",
    ),
    click.option(
        "--flops-per-step", type=float,
        help="FLOPs of a step, for its MFU and for accelerators such as emulated:h100.",
    ),
    click.option(
        "--mfu", type=float, default=0.4, show_default=True,
        help="Assumed MFU of accelerators such as emulated:h100.",
    ),
    html_option,
    click.option(
        "--trace", type=path_type, metavar="DIR",
        help="Keep a profiler's trace of some real steps for ui.perfetto.dev.",
    ),
)  # fmt: skip


def measure_options(budget_help: str, of_maxtext: str = "loader") -> Callable[[_Command], _Command]:
    """Return a decorator that adds options; --maxtext uses the loader named `of_maxtext`."""
    budget = seconds_option("--budget", MeasureRequest.budget_s, budget_help)

    def decorate(command: _Command) -> _Command:
        @wraps(command)
        def decorated(
            maxtext: Path | None, overrides: Sequence[str], storage: str | None, **named: Any
        ) -> None:
            if maxtext is not None:
                words = (str(maxtext), *overrides)
                named["loader"] = named["loader"] or Target("netpipe.maxtext", of_maxtext, words)
                # With an emulated accelerator, tracing would make the whole state on this host.
                if "auto" in parse_accelerators(named["accelerator"]):
                    named["step"] = named["step"] or Target("netpipe.maxtext", "step", words)
            elif overrides:
                raise click.UsageError(f"KEY=VALUE needs '--maxtext'; found {overrides[0]!r}.")
            elif not named["loader"]:
                raise click.UsageError("Missing option '--loader' or '--maxtext'.")
            if storage:
                named["loader"] = replace(named["loader"], storage=storage)
            command(**named)

        for option in reversed((*_OPTIONS, budget, reading_options)):
            decorated = option(decorated)
        return decorated

    return decorate


def build_requests(
    accelerators: Sequence[str], html: Path | None, trace: Path | None, settings: Mapping[str, Any]
) -> list[MeasureRequest]:
    """Return a request for each accelerator; `settings` are its other fields.

    Raises:
        InputError: The page or the trace cannot be written.
        MisuseError: A value is outside its range.
    """
    refuse_unwritable(html, "--html")
    folder = str(writable_folder(trace, "--trace")) if trace else ""
    return [MeasureRequest(accelerator=name, trace=folder, **settings) for name in accelerators]


class Measurements(TypedDict):
    """The document of `netpipe measure --json` for several accelerators."""

    schema: Literal["netpipe.measurements/1"]
    #: One measurement for each accelerator, in the given order, with its verdict.
    measurements: list[Annotated[Measurement, Must(required=["verdict"])]]


@click.command(
    epilog="\b\nExample:\n"
    "  netpipe measure --loader perf/conftest.py:batches --accelerator emulated:30ms"
)
@measure_options("Seconds to spend on rounds.")
def measure(
    loader: Target,
    step: Target | None,
    loop: Target | None,
    accelerator: str,
    html: Path | None,
    trace: Path | None,
    as_json: bool,
    **settings: Any,
) -> None:
    """Measure a loader with a step and say why training waits.

    TARGET is package.module:name or path/to/file.py:name, a callable without arguments. Several
    accelerators may be given, separated by commas.
    """
    from netpipe.jobs.parent import CHILD_COMMAND, run_measurement

    settings["targets"] = name_targets(loader=loader, step=step, loop=loop)
    settings["stopping_rule"] = "clear"
    requests = build_requests(parse_accelerators(accelerator), html, trace, settings)
    typical_s = sum(request.typical_s for request in requests)
    notes.print(f"this usually takes {format_seconds(typical_s)}")
    measurements: list[Measurement] = []
    try:
        for request in requests:
            label = "the device here"
            if request.accelerator != "auto":
                label = f"{request.accelerator.removeprefix('emulated:')} (derived)"
            with show_progress(label) as progress:
                measurements.append(run_measurement(CHILD_COMMAND, request, progress=progress))
    finally:
        # After a failure, the earlier measurements are still reported.
        if measurements:
            document = _report(measurements, as_json=as_json, listed=len(requests) > 1)
            write_html(document, html)
    codes = list(map(exit_code, measurements))
    sys.exit(FAILED if FAILED in codes else max(codes))


def _report(measurements: list[Measurement], *, as_json: bool, listed: bool) -> dict[str, Any]:
    """Print the measurements; return the document for their HTML page."""
    documents = [
        measurement_document(measured, decision.judge(measured)) for measured in measurements
    ]
    document = {"schema": "netpipe.measurements/1", "measurements": documents}
    if as_json:
        print_json(document if listed else documents[0])
    else:
        print_verdicts(measurements)
    return document


def print_verdicts(measurements: list[Measurement]) -> None:
    """Print the table of measurements, then the verdict and the evidence of each."""
    output.print(verdict_table(measurements))
    for measurement in measurements:
        verdict, device = decision.judge(measurement), measurement.device
        output.print(bold_first(subject_label(measurement), f": {verdict.message}"))
        lines = [f"S0 is derived: {device.kind}"] if device.emulated else []
        if measurement.storage:
            lines.append(f"L and R are derived: a stand-in for {measurement.storage}")
        lines += [*verdict.evidence, *figure_lines(measurement, verdict), f"next: {verdict.next}"]
        remarks = decision.find_remarks(measurement, verdict)
        for line in (*lines, *(f"{remark.name}: {remark.message}" for remark in remarks)):
            output.print(f"  {line}")
        if measurement.trace:
            output.print(f"  {trace_line(measurement)}", soft_wrap=True)


def exit_code(measurement: Measurement) -> int:
    """Return a command's exit code from the verdict of its measurement."""
    verdict = decision.judge(measurement)
    if verdict.kind == VerdictKind.INCONCLUSIVE:
        return INCONCLUSIVE
    return FINE if verdict.passes(measurement) else FAILED
