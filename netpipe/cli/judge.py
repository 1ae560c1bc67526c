"""`netpipe judge`: whether a change alters, loses or slows anything."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

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
    seconds_option,
    target_type,
)
from netpipe.cli.progress_display import show_progress
from netpipe.errors import InputError
from netpipe.git import GitError, git
from netpipe.jobs.targets import Target, name_targets

if TYPE_CHECKING:
    from netpipe.judge.judgement import Judgement

_CODES: Final = {"ACCEPTED": FINE, "REFUSED": FAILED, "UNDECIDED": INCONCLUSIVE}
_MAIN: Final = ("origin/HEAD", "origin/main", "main", "origin/master", "master")
_LOADER: Final = "perf/conftest.py:batches"


@click.command(epilog="\b\nExample:\n  netpipe judge main --loader perf/conftest.py:batches")
@click.argument("base", required=False)
@click.option(
    "--loader", type=target_type, metavar="TARGET", default=_LOADER, show_default=True,
    help="The loader to judge; netpipe init writes the default.",
)  # fmt: skip
@click.option("--step", type=target_type, metavar="TARGET", help="Count a step too.")
@click.option("--claim", type=click.Choice(["faster"]), help="What the change must prove.")
@click.option(
    "--batches", type=click.IntRange(min=1), default=256, show_default=True,
    help="The most batches to compare in each pass; only a whole epoch shows what was lost.",
)  # fmt: skip
@click.option("--no-timing", is_flag=True, help="Only count work; no effect with a claim.")
@seconds_option("--budget", 20.0, "Seconds for timing; each duet takes half of it.")
@reading_options
def judge(
    base: str | None,
    loader: Target,
    step: Target | None,
    claim: str | None,
    batches: int,
    no_timing: bool,
    budget_s: float,
    as_json: bool,
    **limits: float,
) -> None:
    """Judge the working tree against the git ref BASE: the same data, complete, and no slower.

    Without BASE, it is compared with where it left the main branch. ACCEPTED (exit code 0): nothing
    is worse, and a claim is proven. REFUSED (1): something is worse. UNDECIDED (3): a check could
    not be made, or decided nothing. Declare an intended change in pyproject.toml.
    """
    from netpipe.judge.judge import Change
    from netpipe.other_version import open_version
    from netpipe.worktrees import find_commit

    here, targets = Path.cwd(), name_targets(loader=loader, step=step)
    commit = find_commit(here, *([base, "BASE"] if base else _find_base(here)))
    with (
        open_version(commit, here, "", notes.print) as version,
        show_progress("judging") as progress,
    ):
        change = Change(
            version, here, targets, batches, budget_s,
            is_timed=claim is not None or not no_timing, claims_faster=claim is not None,
            limits=limits, progress=progress,
        )  # fmt: skip
        found = change.judge()
    if as_json:
        print_json(found.to_document())
    else:
        _print(found)
    sys.exit(_CODES[found.verdict])


def _find_base(folder: Path) -> tuple[str, str, str]:
    """Return the commit at which HEAD left the main branch, the parameter, and the branch's name.

    Raises:
        InputError: There is no such branch, or nothing to compare with it.
    """
    for name in _MAIN:
        try:
            base = git(folder, "merge-base", "HEAD", name)
        except GitError:
            continue
        if base == git(folder, "rev-parse", "HEAD") and not git(folder, "status", "--porcelain"):
            raise InputError("BASE", "working tree", f"differ from {name}", "none", "Name a ref")
        return base, "BASE", name
    constraint = f"be given if HEAD has no commit in common with one of {', '.join(_MAIN)}"
    way_out = "A shallow clone must fetch the whole history (fetch-depth: 0 of actions/checkout)"
    raise InputError("BASE", "ref", constraint, "none", way_out)


def _print(found: "Judgement") -> None:
    from netpipe.reporting.tables import TerminalTable

    table = TerminalTable(f"{found.loader} against {found.base}", "question", "outcome", "reason")
    for check in found.checks:
        declared = f"declared: {check.declared}; " * bool(check.declared)
        table.add_row(check.question, check.outcome, declared + check.reason)
    output.print(table)
    decisive = f": {', '.join(found.decisive)}" * bool(found.decisive)
    output.print(bold_first(found.verdict, decisive))
