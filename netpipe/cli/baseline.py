"""`netpipe devices`, `doctor` and `baseline`: describe a machine, manage its baselines."""

import sys
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from netpipe.cli.console import (
    FAILED,
    FINE,
    PathType,
    bold_first,
    json_option,
    notes,
    output,
    path_type,
    print_json,
    run_child,
    with_tests,
)
from netpipe.errors import HarnessError, InputError
from netpipe.reporting.tables import TerminalTable
from netpipe.results.units import format_metric

if TYPE_CHECKING:
    from netpipe.gate.history import Entry

_file_type = PathType(dir_okay=False, path_type=Path)
_baselines_option = click.option(
    "--baselines", type=path_type, default=Path("baselines"), show_default=True,
    help="The folder of baselines.",
)  # fmt: skip


@click.command(epilog="\b\nExample:\n  netpipe devices --json")
@_baselines_option
@json_option
def devices(baselines: Path, as_json: bool) -> None:
    """Print the device of this machine, its key, and whether a baseline matches it."""
    from netpipe.device.detection import devices_document, find_device
    from netpipe.device.host import this_host

    document = devices_document(find_device(), this_host(), baselines)
    _print_machine(document, ("device", "host", "versions", "baseline"), as_json)


def _print_machine(document: dict[str, Any], parts: Iterable[str], as_json: bool) -> None:
    if as_json:
        print_json(document)
    for part in () if as_json else parts:
        output.print(bold_first(part))
        for name, value in (document[part] or {"all of it": "unknown"}).items():
            output.print(f"  {name}: {value}")


@click.command(epilog="\b\nExample:\n  netpipe doctor")
@_baselines_option
@json_option
def doctor(baselines: Path, as_json: bool) -> None:
    """Print this machine's properties, what disturbs measurements, and the remedies."""
    import psutil

    from netpipe.device import detection, machine
    from netpipe.device.host import this_host
    from netpipe.gate.history import list_compared

    # Read before jax starts, so any GPU in use belongs to another process.
    here, throttled = machine.describe_machine(), machine.count_throttled_periods()
    used = psutil.cpu_times_percent(1)
    throttled = machine.count_throttled_periods() - throttled
    found = machine.find_disturbances(here, used, throttled)
    device, host = None, this_host()
    try:
        device = detection.find_device()
    except HarnessError as error:
        found.append((str(error), "or measure with an emulated accelerator"))
    document = detection.devices_document(device, host, baselines)
    if device:
        document["baseline"]["compared"] = list_compared(baselines / device.key, host)
    document |= {"schema": "netpipe.doctor/1", "machine": here}
    document["disturbances"] = [{"what": what, "remedy": remedy} for what, remedy in found]
    _print_machine(document, ("device", "host", "machine", "versions", "baseline"), as_json)
    if not as_json:
        output.print(bold_first("disturbs measurements", "" if found else ": nothing found"))
        for what, remedy in found:
            output.print(f"  {what}\n    {remedy}")


@click.group(epilog="\b\nExample:\n  netpipe baseline list")
def baseline() -> None:
    """Manage the accepted results of each device."""


@baseline.command(
    context_settings={"ignore_unknown_options": True},
    epilog="\b\nExample:\n  netpipe baseline record first perf",
)
@click.argument("name")
@click.option(
    "--sessions",
    type=int,
    help="Fresh processes to record (default: netpipe_sessions, or 10; local: 1).",
)  # fmt: skip
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[PYTEST ARGUMENTS]...")
def record(name: str, sessions: int | None, words: tuple[str, ...]) -> None:
    """Run the performance tests and keep their results as a baseline called NAME.

    The baseline holds the benchmarks that passed with valid verdicts. Further arguments go to
    pytest: the folder of the performance tests (default: perf_tests, or else perf), and flags.
    """
    if not name:
        raise InputError("netpipe baseline record", "NAME", "name the baseline", "none")
    command = [sys.executable, "-m", "pytest", *with_tests(words)]
    command += [f"--netpipe-record={name}"]
    command += [f"--netpipe-sessions={sessions}"] * (sessions is not None)
    sys.exit(run_child(command, Path.cwd(), {}))


@baseline.command("list", epilog="\b\nExample:\n  netpipe baseline list")
@_baselines_option
@json_option
def list_(baselines: Path, as_json: bool) -> None:
    """List the baselines of each device; exit with 1 if one cannot be read."""
    from netpipe.gate.history import device_folders, read_entries

    entries = [entry for device in device_folders(baselines) for entry in read_entries(device)]
    described = list(map(_describe, entries))
    if as_json:
        print_json({"schema": "netpipe.baselines/1", "baselines": described})
    elif entries:
        _print_list(described)
    else:
        output.print(
            f"no device has a baseline in {baselines}; record one: netpipe baseline record NAME"
        )
    errors = [entry.error for entry in entries if entry.error]
    for error in errors:
        notes.print(f"netpipe: {error}", soft_wrap=True)
    sys.exit(FAILED if errors else FINE)


def _describe(entry: "Entry") -> dict[str, Any]:
    baseline = entry.baseline
    return {
        "device": entry.path.parent.name,
        "file": entry.path.name,
        "is_compared": entry.is_compared,
        "error": entry.error,
        "recorded": baseline and baseline.recorded,
        "commit": baseline and baseline.commit,
        "sessions": baseline and len(baseline.all_sessions),
        "benchmarks": baseline and sorted(baseline.benchmarks),
    }


def _print_list(described: list[dict[str, Any]]) -> None:
    rows: list[tuple[str, ...]] = []
    for row in described:
        content = ("damaged", "", "", "")
        if not row["error"]:
            counts = str(row["sessions"]), str(len(row["benchmarks"]))
            content = (row["recorded"][:16].replace("T", " "), row["commit"][:7], *counts)
        use = "compared with" if row["is_compared"] else ""
        rows.append((row["device"], row["file"], *content, use))
    headings = ("device", "file", "recorded", "commit", "sessions", "benchmarks", "")
    output.print(TerminalTable("baselines", *headings, rows=rows))


@baseline.command(epilog="\b\nExample:\n  netpipe baseline show baselines/*/0001_*.json")
@click.argument("file", type=_file_type)
@json_option
def show(file: Path, as_json: bool) -> None:
    """Show a baseline: each figure over its sessions, the host, and the versions."""
    summary = _summarize(file)
    if as_json:
        print_json(summary)
        return
    host = summary["host"]
    output.print(bold_first(str(file), f": {summary['recorded']}, commit {summary['commit']}"))
    output.print(f"  host: {host['cpu']}, {host['cores']} cores")
    output.print(f"  versions: {', '.join(f'{k} {v}' for k, v in summary['versions'].items())}")
    output.print(f"  data and configuration: {summary['fingerprint'] or 'not named'}")
    rows = [
        (name, *(format_metric(name, spread[key]) for key in ("median", "low", "high")))
        for name, spread in summary["figures"].items()
    ]
    title = f"over {summary['sessions']} sessions"
    output.print(TerminalTable(title, "figure", "median", "lowest", "highest", rows=rows))


def _summarize(file: Path) -> dict[str, Any]:
    """Return the `netpipe.baseline-summary/1` document of a baseline."""
    from netpipe.gate.baseline import load
    from netpipe.gate.baseline_changes import compute_spreads

    baseline = load(file)
    first = baseline.all_sessions[0]
    return {
        "schema": "netpipe.baseline-summary/1",
        "recorded": baseline.recorded,
        "commit": baseline.commit,
        "host": asdict(first.host),
        "versions": dict(first.versions),
        "fingerprint": first.fingerprint,
        "sessions": len(baseline.all_sessions),
        "benchmarks": sorted(baseline.benchmarks),
        "figures": compute_spreads(baseline),
    }


@baseline.command(
    epilog="\b\nExample:\n  netpipe baseline diff baselines/*/0001_* baselines/*/0002_*"
)
@click.argument("before", type=_file_type)
@click.argument("after", type=_file_type)
@json_option
def diff(before: Path, after: Path, as_json: bool) -> None:
    """Compare two baselines: their figures, hosts and versions."""
    from netpipe.gate.baseline import load
    from netpipe.gate.baseline_changes import compare_baselines
    from netpipe.reporting.baseline_table import change_table

    found = compare_baselines(load(before), load(after))
    if as_json:
        print_json({"schema": "netpipe.baseline-diff/1", **asdict(found)})
        return
    for line in found.differences:
        output.print(f"differs: {line}")
    output.print(change_table(found))


@baseline.command(epilog="\b\nExample:\n  netpipe baseline prune --keep 3")
@_baselines_option
@click.option(
    "--keep", type=click.IntRange(min=1), default=5, show_default=True,
    help="Latest baselines to keep for each device, besides others that runs still need.",
)  # fmt: skip
@click.option("--yes", is_flag=True, help="Remove them instead of listing them.")
def prune(baselines: Path, keep: int, yes: bool) -> None:
    """Remove all but the latest baselines of each device and others that runs still need."""
    from netpipe.gate.baseline import load_all
    from netpipe.gate.history import device_folders, find_superfluous

    for device in device_folders(baselines):
        for path in find_superfluous(load_all(device), keep):
            output.print(f"{'removed' if yes else 'would remove'} {path}")
            if yes:
                path.unlink()
