"""`netpipe ab`: two versions of a project, timed side by side on this machine."""

import json
import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from netpipe.cli.console import (
    FAILED,
    FINE,
    INCONCLUSIVE,
    MISUSE,
    PathType,
    names_tests,
    notes,
    run_child,
    with_tests,
)
from netpipe.errors import InputError
from netpipe.files.temporary_folders import temporary_folder
from netpipe.files.whole_file import refuse_unwritable, write_whole

if TYPE_CHECKING:
    from netpipe.other_version import Version

_UNDECIDED: Final = frozenset(("INCONCLUSIVE", "NOT_COMPARED", "NO_BASELINE"))


@click.command(
    context_settings={"ignore_unknown_options": True},
    epilog="\b\nExample:\n  netpipe ab HEAD~1 perf",
)
@click.argument("base")
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[HEAD] [PYTEST ARGUMENTS]...")
@click.option(
    "--netpipe-json", "results", type=PathType(dir_okay=False, path_type=Path),
    help="Write every measurement and comparison to a file.",
)  # fmt: skip
def ab(base: str, words: tuple[str, ...], results: Path | None) -> None:
    """Time the git ref BASE and HEAD side by side on this machine, and compare them.

    HEAD is a git ref too; without it, the working tree is measured. The remaining arguments go to
    pytest: the folder of the performance tests (default: perf_tests, or else perf), and flags. The
    first argument after BASE is HEAD unless it is a flag or names a file or folder. With HEAD,
    pytest runs in another folder: give absolute paths for files that it writes. No baseline is
    needed.
    """
    from netpipe.other_version import TYPED_VARIABLE, open_version
    from netpipe.worktrees import find_commit

    if "--netpipe-against" in (word.partition("=")[0] for word in words):
        raise InputError("netpipe ab", "--netpipe-against", "be absent", "it", f"BASE is {base}")
    refuse_unwritable(results, "--netpipe-json")
    here = Path.cwd()
    commit = find_commit(here, base, "netpipe ab")
    has_head = bool(words) and not words[0].startswith("-") and not names_tests(words[0])
    head, arguments = (words[0], words[1:]) if has_head else ("", words)
    arguments = with_tests(arguments)
    opened: AbstractContextManager[Version | None] = nullcontext()
    if head:
        opened = open_version(find_commit(here, head, "netpipe ab"), here, "", notes.print)
    with temporary_folder("ab") as folder, opened as version:
        # The user's file may hold an earlier run, which must not decide this exit code.
        results_file = folder / "run.json"
        # In the checkout of HEAD, HEAD~1 names another commit, so pytest gets the hash. The
        # typed ref is only for its messages.
        ref, variables = (commit.sha, {TYPED_VARIABLE: base}) if head else (base, {})
        flags = [f"--netpipe-against={ref}", f"--netpipe-json={results_file}"]
        code = _run_pytest([*arguments, *flags], version, variables)
        code = _choose_exit_code(code, results_file)
        if results and results_file.exists():
            try:
                write_whole(results, results_file.read_bytes(), "--netpipe-json")
            except InputError as error:
                notes.print(f"netpipe: {error}", soft_wrap=True)
                code = code or MISUSE
        sys.exit(code)


def _run_pytest(
    words: Sequence[str], version: "Version | None", variables: Mapping[str, str]
) -> int:
    """Run pytest on the working tree, or on another version; return its exit code."""
    here = Path.cwd()
    if version is None:
        return run_child([sys.executable, "-m", "pytest", *words], here, variables)
    environment = version.place(here)
    command = [version.python, "-m", "pytest", *version.move_paths(words, here)]
    return run_child(command, environment.folder or here, {**variables, **environment.variables})


def _choose_exit_code(code: int, results_file: Path) -> int:
    """Return the exit code of the command, which has one for INCONCLUSIVE, unlike pytest."""
    # pytest's 0 and 1 mean the same here; any other code means a run without a result.
    if code not in (FINE, FAILED):
        return MISUSE
    if not results_file.exists():
        return code
    comparisons = json.loads(results_file.read_text(encoding="utf-8"))["comparisons"]
    judged = [row for row in comparisons if row["against"] and not row.get("is_reported_only")]
    decided = sum(row["outcome"] not in _UNDECIDED for row in judged)
    is_complete = bool(judged) and decided == len(judged)
    if is_complete or (code == FAILED and (decided or not judged)):
        return code
    count = f"only {decided} of {len(judged)} comparisons" if decided else "no comparison"
    notes.print(f"netpipe: {count} of the two versions could be decided", soft_wrap=True)
    return INCONCLUSIVE
