"""`netpipe work` and `netpipe resume`: what a loader does for a batch, and after a restart."""

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict

import click

from netpipe.cli.console import (
    FAILED,
    FINE,
    INCONCLUSIVE,
    batch_limit_option,
    bold_first,
    json_option,
    notes,
    output,
    print_json,
    quiet_option,
    seconds_option,
    target_type,
)
from netpipe.cli.progress_display import show_progress
from netpipe.gate.outcomes import Comparison, Outcome
from netpipe.verdict.report import new_table

if TYPE_CHECKING:
    from netpipe.jobs.progress import OnProgress
    from netpipe.results.work_profile import WorkProfile
    from netpipe.work_counts.counting import WorkRequest


@click.command(epilog="\b\nExample:\n  netpipe work perf/conftest.py:batches")
@click.argument("target", type=target_type)
@click.option("--step", type=target_type, metavar="TARGET", help="Count a step too.")
@click.option("--against", metavar="REF", help="Also count this git ref, and compare.")
@click.option(
    "--batches", type=click.IntRange(min=1), default=16, show_default=True,
    help="Batches to count, after the first two.",
)  # fmt: skip
@seconds_option("--start-limit", 600.0, "Seconds until the first batch must be there.")
@quiet_option
@json_option
def work(
    target: str, step: str | None, against: str | None, quiet: bool, as_json: bool, **limits: Any
) -> None:
    """Count what a loader does for a batch: calls, allocations, elements and bytes.

    Unlike times, counts are the same on a busy machine and on another host. With --against, the
    exit code is 1 if there is more work than before, and 3 if a count could not be compared. TARGET
    is package.module:name or path/to/file.py:name, a callable that returns the loader.
    """
    from netpipe.measuring.targets import targets_command
    from netpipe.work_counts.counting import WorkRequest, count_work

    request = WorkRequest(**limits)
    command = targets_command("netpipe.work_counts.child", target, step)
    compared: Sequence[Comparison] = ()
    with show_progress("counting", quiet=quiet) as progress:
        if against is None:
            profile = count_work(command, request, progress=progress)
        else:
            profile, compared = _compare(against, command, request, progress)
    if as_json:
        comparisons = list(map(_document, compared))
        run = {"loader": target, "against": against, "comparisons": comparisons}
        print_json({**profile.to_document(), **run})
    else:
        _print_profile(profile)
        for comparison in compared:
            line = bold_first(comparison.outcome, f" against {against}: {comparison.reason}")
            output.print(line, soft_wrap=True)
    sys.exit(_choose_exit_code(compared))


def _compare(
    ref: str, command: list[str], request: "WorkRequest", progress: "OnProgress | None"
) -> "tuple[WorkProfile, Sequence[Comparison]]":
    from netpipe.gate.work_comparison import compare_work
    from netpipe.plugin.other_version import open_version
    from netpipe.plugin.worktrees import find_commit
    from netpipe.work_counts.counting import count_work

    here = Path.cwd()
    commit = find_commit(here, ref, "--against")
    with open_version(commit, here, "", notes.print) as version:
        now = count_work(command, version.request_here(request), progress=progress)
        moved = [version.python, *version.move_paths(command[1:], here)]
        then = count_work(moved, version.request_there(request), version.place(here), progress)
    return now, compare_work(now, then)


class ComparedWork(TypedDict):
    """A kind of work against the other version."""

    kind: str
    outcome: Literal["PASS", "REGRESSED", "IMPROVED", "NOT_COMPARED"]
    now: float  #: Per batch.
    then: float | None
    #: By what factor there is more; null where there was nothing, or it cannot be compared.
    worse_ratio: float | None
    reason: str  #: The figures, and what causes a regression, the most important first.


class PrintedWork(TypedDict, total=False):
    """The fields beside a profile that `netpipe work --json` prints."""

    loader: str  #: The target.
    against: str | None  #: The other version as the user named it; null without one.
    comparisons: list[ComparedWork]  #: Each kind of work against the other version.


def _document(comparison: Comparison) -> dict[str, Any]:
    return {
        "kind": comparison.metric,
        "outcome": comparison.outcome.value,
        "now": comparison.now,
        "then": comparison.then,
        "worse_ratio": comparison.worse_ratio,
        "reason": comparison.reason,
    }


def _choose_exit_code(compared: Sequence[Comparison]) -> int:
    outcomes = {comparison.outcome for comparison in compared}
    if Outcome.REGRESSED in outcomes:
        return FAILED
    return INCONCLUSIVE if Outcome.NOT_COMPARED in outcomes else FINE


def _print_profile(profile: "WorkProfile") -> None:
    from netpipe.results.work_profile import KINDS

    title = f"work per batch, over {profile.batches} batches"
    table = new_table(title, "kind", "per batch", "most of it")
    for name in profile.counts:
        kind, largest = KINDS[name], profile.largest_parts(name)
        lines = (f"{kind.format(count)}: {part}" for part, count in largest if part)
        table.add_row(name, kind.format(profile.total(name)), "\n".join(lines))
    output.print(table)
    for array, shape in profile.arrays.items():
        output.print(f"{array}: {shape}")
    for name, why in profile.not_counted.items():
        output.print(f"{name} was not counted: {why}")
    for name, dropped in profile.dropped.items():
        output.print(f"differs between two processes, left out of {name}: {', '.join(dropped)}")


@click.command(epilog="\b\nExample:\n  netpipe resume perf/conftest.py:batches")
@click.argument("target", type=target_type)
@click.option(
    "--batches", type=click.IntRange(min=2), default=32, show_default=True,
    help="Batches to compare, or all of a loader that ends before.",
)  # fmt: skip
@batch_limit_option
@seconds_option("--start-limit", 600.0, "Seconds until its first batch must be there.")
@quiet_option
@json_option
def resume(target: str, quiet: bool, as_json: bool, **settings: Any) -> None:
    """Check that a loader goes on from its states as if nothing had interrupted it.

    Each state is restored in a fresh process. The exit code is 1 if batches then differ, and 3 if
    they do without interruption too. TARGET is package.module:name or path/to/file.py:name, a
    callable that returns the loader.
    """
    from netpipe.measuring.targets import targets_command
    from netpipe.resuming.checking import ResumeRequest, check_resume

    command = targets_command("netpipe.resuming.child", target)
    with show_progress("resuming", quiet=quiet) as progress:
        report = check_resume(command, ResumeRequest(**settings), progress)
    if as_json:
        print_json(replace(report, loader=target).to_document())
    else:
        output.print(str(report), soft_wrap=True)
    sys.exit(INCONCLUSIVE if report.undecided else FAILED if report.differs else FINE)
