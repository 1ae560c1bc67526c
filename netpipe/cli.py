"""The `netpipe` command: thin commands, each of which imports what it needs inside itself."""

import functools
import json
import signal
import sys
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import click
from rich.console import Console
from rich.text import Text

import netpipe
from netpipe.errors import NetpipeError

if TYPE_CHECKING:
    from netpipe.data.index import Index
    from netpipe.harness.measurement import Measurement

FINE, FAILED, MISUSE, INCONCLUSIVE = 0, 1, 2, 3

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")

# What is printed holds the user's code and paths: metrics[name] is no markup, and [:x:] no emoji.
_notes = Console(stderr=True, markup=False, emoji=False, highlight=False)
_output = Console(
    width=None if sys.stdout.isatty() else 118, markup=False, emoji=False, highlight=False
)
_folder = click.Path(file_okay=True, path_type=Path)
_as_json = click.option("--json", "as_json", is_flag=True, help="One JSON document, no table.")


def _clear_errors(command: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
    """Turn what is meant for the user into one line each, and an error into exit code 2."""

    @functools.wraps(command)
    def wrapped(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Result:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("default", UserWarning)
                warnings.showwarning = _say_warning
                return command(*args, **kwargs)
        except NetpipeError as error:
            click.echo(f"netpipe: {error}", err=True)
            sys.exit(MISUSE)

    return wrapped


def _say_warning(message: Warning | str, *_: object, **__: object) -> None:
    _notes.print(f"netpipe: warning: {message}", soft_wrap=True)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(netpipe.__version__, prog_name="netpipe")
def main() -> None:
    """Tell whether training waits for its data, and why."""
    # So that what a command started is ended and what it wrote is cleaned up.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))


@main.command()
@click.option("--out", type=_folder, required=True, help="The folder to make.")
@click.option("--probes", type=int, help="How many probes measure.")
@click.option("--seed", type=int, default=0, show_default=True, help="Another gives other data.")
@_clear_errors
def generate(out: Path, probes: int | None, seed: int) -> None:
    """Make the embedded default data set: parquet and prepared probe rows."""
    from netpipe.data.synthetic import EMBEDDED_PROBES
    from netpipe.data.synthetic import generate as generate_data

    chosen = EMBEDDED_PROBES if probes is None else probes
    with _Progress("generating") as progress:
        index = generate_data(out, probes=chosen, seed=seed, progress=progress)
    _say_prepared(out, index)


@main.command()
@click.argument("sources", nargs=-1, type=_folder, required=True)
@click.option("--out", type=_folder, required=True, help="The folder to make.")
@click.option("--seed", type=int, default=0, show_default=True, help="Chooses the eval probes.")
@click.option("--shards", type=int, default=8, show_default=True, help="Files of the train split.")
@_clear_errors
def prepare(sources: tuple[Path, ...], out: Path, seed: int, shards: int) -> None:
    """Turn parquet measurements into probe rows, train and eval split by probe."""
    from netpipe.data.prepare import prepare as prepare_data

    with _Progress("preparing") as progress:
        index = prepare_data(list(sources), out, seed=seed, shards=shards, progress=progress)
    _say_prepared(out, index)


def _say_prepared(out: Path, index: "Index") -> None:
    for name in ("train", "eval"):
        split = index.split(name)
        _notes.print(
            f"{name}: {split.measurements:,} measurements of {split.probes:,} probes in "
            f"{split.rows:,} rows, {len(split.shards)} files"
        )
    _notes.print(f"in {out}; run on them: pytest perf_tests --netpipe-data {out}", soft_wrap=True)


class _Progress:
    """A progress bar on standard error, fed with how much of how much is done."""

    def __init__(self, label: str) -> None:
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        self._bar = Progress(
            TextColumn(label), BarColumn(), TextColumn("{task.percentage:.0f}%"),
            TimeElapsedColumn(), console=_notes,
        )  # fmt: skip
        self._task = self._bar.add_task(label, total=None)

    def __enter__(self) -> "_Progress":
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def __call__(self, done: int, total: int) -> None:
        self._bar.update(self._task, completed=done, total=total)


@main.command()
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
@_as_json
@_clear_errors
def measure(
    loader: str,
    step: str | None,
    loop: str | None,
    accelerator: str,
    flops_per_step: float | None,
    mfu: float,
    budget: float,
    batch_limit: float,
    as_json: bool,
) -> None:
    """Measure a loader with a step and say why training waits.

    TARGET is package.module:name or path/to/file.py:name, a callable without arguments.
    """
    from netpipe.harness.emulation import parse_accelerators
    from netpipe.harness.session import SessionRequest, child_command, measured

    asked = SessionRequest(
        "measure",
        budget_s=budget,
        batch_limit_s=batch_limit,
        flops_per_step=flops_per_step,
        mfu=mfu,
    )
    requests = [replace(asked, accelerator=one) for one in parse_accelerators(accelerator)]
    command = child_command(loader, step, loop)
    measurements: list[Measurement] = []
    try:
        for request in requests:
            _notes.print(f"measuring against {request.accelerator}")
            measurements.append(measured(command, request))
    finally:  # one that fails takes nothing from those before it
        if measurements:
            _print_measurements(measurements, listed=len(requests) > 1, as_json=as_json)
    codes = [_exit_code(one) for one in measurements]
    sys.exit(FAILED if FAILED in codes else max(codes))


def _print_measurements(measurements: "list[Measurement]", *, listed: bool, as_json: bool) -> None:
    if as_json:
        _print_documents(measurements, listed=listed)
    else:
        _print_verdicts(measurements)


def _print_documents(measurements: "list[Measurement]", *, listed: bool) -> None:
    """Print one measurement as its document, those of a list as one document of them."""
    from netpipe.harness.report import measurement_document
    from netpipe.harness.stall import judge

    documents = [measurement_document(one, judge(one)) for one in measurements]
    if listed:
        _print_json({"schema": "netpipe.measurements/1", "measurements": documents})
    else:
        _print_json(documents[0])


def _print_verdicts(measurements: "list[Measurement]") -> None:
    from netpipe.harness.report import device_label, sizing_line, verdict_table
    from netpipe.harness.stall import judge, remarks

    _output.print(verdict_table(measurements))
    for one in measurements:
        verdict = judge(one)
        _output.print(_bold_first(device_label(one.device), f": {verdict.message}"))
        derived = [f"S0 is derived: {one.device.kind}"] if one.device.emulated else []
        for line in (*derived, *verdict.evidence, sizing_line(one), f"next: {verdict.next}"):
            _output.print(f"  {line}")
        for remark in remarks(one, verdict):
            _output.print(f"  {remark.name}: {remark.message}")


def _bold_first(first: str, rest: str = "") -> Text:
    return Text.assemble((first, "bold"), rest)


def _exit_code(measurement: "Measurement") -> int:
    from netpipe.harness.stall import judge

    verdict = judge(measurement)
    if verdict.kind == "inconclusive":
        return INCONCLUSIVE
    return FINE if verdict.passes(measurement) else FAILED


@main.command()
@click.argument("target")
@click.option(
    "--intent", type=click.Choice(["throughput", "reproducible"]), default="throughput",
    show_default=True, help="What the order is held to.",
)  # fmt: skip
@_as_json
@_clear_errors
def lint(target: str, intent: str, as_json: bool) -> None:
    """Read a Grain pipeline and say what stands in the wrong place.

    TARGET is package.module:name or path/to/file.py:name, a callable that returns the pipeline.
    """
    from netpipe.harness.session import SessionRequest, child_command, linted

    document = linted(child_command(target, None, None), SessionRequest("lint", intent=intent))
    if as_json:
        _print_json(document)
    else:
        _print_lint(document)
    errors = any(one["severity"] == "error" for one in document["findings"])
    sys.exit(FAILED if errors else FINE)


def _print_lint(document: dict[str, Any]) -> None:
    for one in document["findings"]:
        _output.print(_bold_first(one["severity"], f" {one['rule']}: {one['message']}"))
        for word in ("cost", "fix"):
            if one[word]:
                _output.print(f"  {word}: {one[word]}")
    if not document["findings"]:
        _output.print(f"nothing stands wrong, for {document['intent']}")


@main.command()
@click.option(
    "--baselines", type=_folder, default=Path("baselines"), show_default=True,
    help="The folder of baselines.",
)  # fmt: skip
@_as_json
@_clear_errors
def devices(baselines: Path, as_json: bool) -> None:
    """Say which device is here, its key, and whether a baseline matches it."""
    from netpipe.harness.device import devices_report, find_device
    from netpipe.harness.host import this_host

    document = devices_report(find_device(), this_host(), baselines).to_document()
    if as_json:
        _print_json(document)
        return
    for part in ("device", "host", "versions", "baseline"):
        section = document[part]
        assert isinstance(section, dict)
        _output.print(_bold_first(part))
        for name, value in section.items():
            _output.print(f"  {name}: {value}")


def _print_json(document: object) -> None:
    click.echo(json.dumps(document, indent=2, allow_nan=False))
