"""`netpipe baseline`: recorded, listed, shown, compared and thinned out."""

import subprocess
import sys
from collections.abc import Mapping
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
    from netpipe.gate.baseline import Baseline
    from netpipe.gate.history import Entry, Spread

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

    It is written only if every test passed and every verdict was valid. What follows NAME goes to
    pytest: the folder of the performance tests (perf_tests), and its flags.
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
    """List all baselines; one that cannot be read is named, and fails."""
    from netpipe.gate.history import entries

    found = list(entries(_existing(baselines)))
    if as_json:
        print_json({"schema": "netpipe.baselines/1", "baselines": [_described(e) for e in found]})
    elif found:
        output.print(_listing(found))
    else:
        output.print(f"no baseline in {baselines}; record one: netpipe baseline record NAME")
    for one in found:
        if one.error:
            notes.print(f"netpipe: {one.error}", soft_wrap=True)
    sys.exit(FAILED if any(one.error for one in found) else FINE)


def _existing(baselines: Path) -> Path:
    from netpipe.errors import InputError

    if not baselines.is_dir():
        raise InputError(
            baselines, "--baselines", "be a folder", "none", "Record a baseline, or say where it is"
        )
    return baselines


def _described(entry: "Entry") -> dict[str, Any]:
    from netpipe.gate.history import sessions

    held = entry.baseline
    return {
        "device": entry.path.parent.name,
        "file": entry.path.name,
        "is_compared": entry.is_compared,
        "error": entry.error,
        "recorded": held and held.recorded,
        "commit": held and held.commit,
        "sessions": held and len(sessions(held)),
        "benchmarks": held and sorted(name for name, some in held.sessions.items() if some),
    }


def _listing(found: "list[Entry]") -> Any:
    from netpipe.verdict.report import new_table

    table = new_table("baselines")
    for heading in ("device", "file", "recorded", "commit", "sessions", "benchmarks", ""):
        table.add_column(heading, no_wrap=True)
    for one in map(_described, found):
        table.add_row(
            one["device"],
            one["file"],
            "damaged" if one["error"] else one["recorded"][:16].replace("T", " "),
            "" if one["error"] else one["commit"][:7],
            "" if one["error"] else str(one["sessions"]),
            "" if one["error"] else str(len(one["benchmarks"])),
            "compared with" if one["is_compared"] else "",
        )
    return table


@baseline.command()
@click.argument("file", type=_file)
@as_json
@report_errors
def show(file: Path, as_json: bool) -> None:
    """Show what a baseline holds: each figure over its sessions, on which host, with what."""
    from netpipe.gate.baseline import load
    from netpipe.gate.history import sessions

    held = load(file)
    first = sessions(held)[0]
    figures = _figures(held)
    if as_json:
        print_json(_shown(held, figures))
        return
    output.print(bold_first(str(file), f": {held.recorded}, commit {held.commit}"))
    output.print(f"  host: {first.host.cpu}, {first.host.cores} cores")
    output.print(f"  versions: {', '.join(f'{k} {v}' for k, v in first.versions.items())}")
    output.print(f"  data and configuration: {first.fingerprint or 'not named'}")
    output.print(_figure_table(figures, len(sessions(held))))


def _figures(held: "Baseline") -> "Mapping[str, Spread]":
    from netpipe.gate.history import FIGURES, sessions, spread

    return {name: spread(sessions(held), name) for name in FIGURES}


def _shown(held: "Baseline", figures: "Mapping[str, Spread]") -> dict[str, Any]:
    from dataclasses import asdict

    from netpipe.gate.history import sessions

    first = sessions(held)[0]
    return {
        "schema": "netpipe.baseline-summary/1",
        "recorded": held.recorded,
        "commit": held.commit,
        "host": asdict(first.host),
        "versions": dict(first.versions),
        "fingerprint": first.fingerprint,
        "sessions": len(sessions(held)),
        "benchmarks": sorted(name for name, some in held.sessions.items() if some),
        "figures": {name: asdict(one) for name, one in figures.items()},
    }


def _figure_table(figures: "Mapping[str, Spread]", count: int) -> Any:
    from netpipe.results.units import format_metric
    from netpipe.verdict.report import new_table

    table = new_table(f"over {count} sessions")
    for heading in ("figure", "median", "lowest", "highest"):
        table.add_column(heading, no_wrap=True)
    for name, one in figures.items():
        table.add_row(
            name, *(format_metric(name, value) for value in (one.median, one.low, one.high))
        )
    return table


@baseline.command()
@click.argument("before", type=_file)
@click.argument("after", type=_file)
@as_json
@report_errors
def diff(before: Path, after: Path, as_json: bool) -> None:
    """Put two baselines side by side: what one was accepted with, and the other."""
    from netpipe.gate.baseline import load
    from netpipe.gate.baseline_changes import change_table
    from netpipe.gate.history import changes

    found = changes(load(before), load(after))
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
@click.option("--yes", is_flag=True, help="Remove them; without it they are only named.")
@report_errors
def prune(baselines: Path, keep: int, yes: bool) -> None:
    """Remove old baselines, all but each device's latest few and the oldest comparable one."""
    from netpipe.gate.baseline import load_all
    from netpipe.gate.history import devices, superfluous

    for device in devices(_existing(baselines)):
        for path in superfluous(load_all(device), keep):
            output.print(f"{'removed' if yes else 'would remove'} {path}")
            if yes:
                path.unlink()
