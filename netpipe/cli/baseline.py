"""`netpipe baseline`: record, list, show, compare and remove baselines."""

import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from netpipe.cli.console import (
    FAILED,
    FINE,
    as_json,
    bold_first,
    folder,
    notes,
    output,
    print_json,
    report_errors,
)

if TYPE_CHECKING:
    from rich.table import Table

    from netpipe.gate.baseline import Baseline
    from netpipe.gate.baseline_changes import Spread
    from netpipe.gate.history import Entry

_baselines = click.option(
    "--baselines", type=folder, default=Path("baselines"), show_default=True,
    help="The folder of baselines.",
)  # fmt: skip
_file = click.Path(dir_okay=False, path_type=Path)


@click.group()
def baseline() -> None:
    """The accepted results of each device: record, list, show, diff, prune."""


@baseline.command(context_settings={"ignore_unknown_options": True})
@click.argument("name")
@click.option("--sessions", type=int, default=10, show_default=True, help="Fresh processes.")
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[PYTEST ARGUMENTS]...")
def record(name: str, sessions: int, words: tuple[str, ...]) -> None:
    """Run the performance tests and keep their results as a baseline called NAME.

    It is written only if every test passed and every verdict was valid. Further arguments go to
    pytest: the folder of the performance tests (default: perf_tests), and flags.
    """
    positional = [word for word in words if not word.startswith("-")]
    command = [sys.executable, "-m", "pytest", *(() if positional else ("perf_tests",)), *words]
    command += [f"--netpipe-record={name}", f"--netpipe-sessions={sessions}"]
    notes.print(" ".join(command), soft_wrap=True)
    sys.exit(subprocess.run(command, check=False).returncode)


@baseline.command("list")
@_baselines
@as_json
@report_errors
def list_(baselines: Path, as_json: bool) -> None:
    """List all baselines; exit with 1 if one cannot be read."""
    from netpipe.gate.history import device_folders, read_entries

    entries = [e for device in device_folders(_existing(baselines)) for e in read_entries(device)]
    described = list(map(_describe, entries))
    if as_json:
        print_json({"schema": "netpipe.baselines/1", "baselines": described})
    elif entries:
        output.print(_list_table(described))
    else:
        output.print(f"no baseline in {baselines}; record one: netpipe baseline record NAME")
    errors = [entry.error for entry in entries if entry.error]
    for error in errors:
        notes.print(f"netpipe: {error}", soft_wrap=True)
    sys.exit(FAILED if errors else FINE)


def _existing(baselines: Path) -> Path:
    from netpipe.errors import InputError

    if not baselines.is_dir():
        way_out = "Record a baseline, or say where it is"
        raise InputError(baselines, "--baselines", "be a folder", "none", way_out)
    return baselines


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


def _list_table(described: "Iterable[Mapping[str, Any]]") -> "Table":
    from netpipe.verdict.report import new_table

    table = new_table("baselines")
    for heading in ("device", "file", "recorded", "commit", "sessions", "benchmarks", ""):
        table.add_column(heading, no_wrap=True)
    for row in described:
        content = ("damaged", "", "", "")
        if not row["error"]:
            recorded = row["recorded"][:16].replace("T", " ")
            counts = str(row["sessions"]), str(len(row["benchmarks"]))
            content = (recorded, row["commit"][:7], *counts)
        use = "compared with" if row["is_compared"] else ""
        table.add_row(row["device"], row["file"], *content, use)
    return table


@baseline.command()
@click.argument("file", type=_file)
@as_json
@report_errors
def show(file: Path, as_json: bool) -> None:
    """Show a baseline: each figure over its sessions, the host, and the versions."""
    from netpipe.gate.baseline import load
    from netpipe.gate.baseline_changes import compute_spreads

    baseline = load(file)
    first, spreads = baseline.all_sessions[0], compute_spreads(baseline)
    if as_json:
        print_json(_summary_document(baseline, spreads))
        return
    output.print(bold_first(str(file), f": {baseline.recorded}, commit {baseline.commit}"))
    output.print(f"  host: {first.host.cpu}, {first.host.cores} cores")
    output.print(f"  versions: {', '.join(f'{k} {v}' for k, v in first.versions.items())}")
    output.print(f"  data and configuration: {first.fingerprint or 'not named'}")
    output.print(_figure_table(spreads, len(baseline.all_sessions)))


def _summary_document(baseline: "Baseline", spreads: "Mapping[str, Spread]") -> dict[str, Any]:
    from dataclasses import asdict

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
        "figures": {name: asdict(spread) for name, spread in spreads.items()},
    }


def _figure_table(spreads: "Mapping[str, Spread]", count: int) -> "Table":
    from netpipe.results.units import format_metric
    from netpipe.verdict.report import new_table

    table = new_table(f"over {count} sessions")
    for heading in ("figure", "median", "lowest", "highest"):
        table.add_column(heading, no_wrap=True)
    for name, spread in spreads.items():
        values = (spread.median, spread.low, spread.high)
        table.add_row(name, *(format_metric(name, value) for value in values))
    return table


@baseline.command()
@click.argument("before", type=_file)
@click.argument("after", type=_file)
@as_json
@report_errors
def diff(before: Path, after: Path, as_json: bool) -> None:
    """Put two baselines side by side: their figures, and what else differs."""
    from netpipe.gate.baseline import load
    from netpipe.gate.baseline_changes import change_table, compare_baselines

    found = compare_baselines(load(before), load(after))
    if as_json:
        from dataclasses import asdict

        print_json({"schema": "netpipe.baseline-diff/1", **asdict(found)})
        return
    for line in found.differences:
        output.print(f"not alike: {line}")
    output.print(change_table(found))


@baseline.command()
@_baselines
@click.option(
    "--keep", type=click.IntRange(min=1), default=5, show_default=True,
    help="How many of each device's latest stay; the oldest comparable one always does.",
)  # fmt: skip
@click.option("--yes", is_flag=True, help="Remove them; without this flag they are only listed.")
@report_errors
def prune(baselines: Path, keep: int, yes: bool) -> None:
    """Remove old baselines, all but each device's latest few and the oldest comparable one."""
    from netpipe.gate.baseline import load_all
    from netpipe.gate.history import device_folders, find_superfluous

    for device in device_folders(_existing(baselines)):
        for path in find_superfluous(load_all(device), keep):
            output.print(f"{'removed' if yes else 'would remove'} {path}")
            if yes:
                path.unlink()
