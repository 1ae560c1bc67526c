"""`netpipe work` and `netpipe resume`: count a loader's work per batch, check its restarts."""

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, TypedDict

import click

from netpipe.cli.console import (
    FAILED,
    FINE,
    INCONCLUSIVE,
    bold_first,
    notes,
    output,
    print_json,
    reading_options,
    target_type,
)
from netpipe.cli.progress_display import show_progress
from netpipe.gate.outcomes import NO_WORSE, Comparison, Outcome
from netpipe.jobs.targets import Target, name_targets


@click.command(epilog="\b\nExample:\n  netpipe work perf/conftest.py:batches")
@click.argument("target", type=target_type)
@click.option("--step", type=target_type, metavar="TARGET", help="Count a step too.")
@click.option("--against", metavar="REF", help="Also count this git ref, and compare.")
@click.option(
    "--batches", type=click.IntRange(min=1), default=16, show_default=True,
    help="Batches to count, after the first two.",
)  # fmt: skip
@reading_options
def work(
    target: Target,
    step: Target | None,
    against: str | None,
    as_json: bool,
    **limits: Any,
) -> None:
    """Count the work of a loader for a batch: calls, allocations, elements and bytes.

    Unlike times, counts are the same on a busy machine and on another host. With --against, the
    exit code is 1 if there is more work than before, and 3 if a count could not be compared. TARGET
    is package.module:name or path/to/file.py:name, a callable that returns the loader.
    """
    from netpipe.jobs.parent import CHILD_COMMAND
    from netpipe.work_counts.reproducible_counts import WorkRequest, count_work

    request = WorkRequest(targets=name_targets(loader=target, step=step), **limits)
    compared: Sequence[Comparison] = ()
    with show_progress("counting") as progress:
        if against is None:
            profile = count_work(CHILD_COMMAND, request, progress=progress)
        else:
            from netpipe.judge.judge import Change
            from netpipe.other_version import open_version
            from netpipe.worktrees import find_commit

            here = Path.cwd()
            commit = find_commit(here, against, "--against")
            with open_version(commit, here, "", notes.print) as version:
                change = Change(version, here, request.targets, limits=limits, progress=progress)
                profile, compared = change.compare_work()
    if as_json:
        names = ("outcome", "now", "then", "worse_ratio", "reason")
        comparisons = [
            {"kind": found.metric, **{name: getattr(found, name) for name in names}}
            for found in compared
        ]
        run = {"loader": str(target), "against": against, "comparisons": comparisons}
        print_json({**profile.to_document(), **run})
    else:
        from netpipe.reporting.work_table import work_notes, work_table

        table = work_table(profile)
        if table.rows:
            output.print(table.for_terminal())
        for note in work_notes(profile):
            output.print(f"{note.label}: {note.text}")
        for comparison in compared:
            line = bold_first(comparison.outcome, f" against {against}: {comparison.reason}")
            output.print(line, soft_wrap=True)
        if compared:
            output.print(f"counted: {profile.scope}", soft_wrap=True)
    outcomes = {comparison.outcome for comparison in compared}
    otherwise = FINE if outcomes <= {*NO_WORSE} else INCONCLUSIVE
    sys.exit(FAILED if Outcome.REGRESSED in outcomes else otherwise)


class ComparedWork(TypedDict):
    """One kind of work, compared with the other version."""

    kind: str
    outcome: Literal["PASS", "REGRESSED", "IMPROVED", "INCONCLUSIVE", "NOT_COMPARED"]
    now: float  #: Per batch, over the parts that were compared.
    then: float | None
    #: Factor by which the work rose; null if there was none before, or it cannot be compared.
    worse_ratio: float | None
    reason: str  #: The figures, and the causes of a regression, the most important first.


class PrintedWork(TypedDict, total=False):
    """The fields that `netpipe work --json` prints in addition to a profile."""

    loader: str  #: The target.
    against: str | None  #: The other version, as the user named it; null without one.
    comparisons: list[ComparedWork]  #: Each kind of work, compared with the other version.


@click.command(epilog="\b\nExample:\n  netpipe resume perf/conftest.py:batches")
@click.argument("target", type=target_type)
@click.option(
    "--batches", type=click.IntRange(min=2), default=32, show_default=True,
    help="Batches to compare, or fewer if the loader ends earlier.",
)  # fmt: skip
@reading_options
def resume(target: Target, as_json: bool, **settings: Any) -> None:
    """Check that a loader continues exactly from its saved states.

    Each state is restored in a fresh process. The exit code is 1 if batches then differ, and 3 if
    they also differ without interruption. TARGET is package.module:name or path/to/file.py:name, a
    callable that returns the loader.
    """
    from netpipe.jobs.parent import CHILD_COMMAND
    from netpipe.resuming.checking import ResumeRequest, check_resume

    request = ResumeRequest(targets={"loader": target}, **settings)
    with show_progress("resuming") as progress:
        report = check_resume(CHILD_COMMAND, request, progress)
    if as_json:
        print_json(replace(report, loader=str(target)).to_document())
    else:
        output.print(str(report), soft_wrap=True)
    sys.exit(INCONCLUSIVE if report.undecided else FAILED if report.differs else FINE)
