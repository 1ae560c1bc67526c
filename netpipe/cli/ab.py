"""`netpipe ab`: two versions of a project, measured in turns on this machine."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from netpipe.cli.console import FAILED, FINE, INCONCLUSIVE, MISUSE, notes

if TYPE_CHECKING:
    from netpipe.suite.other_version import Version

_UNDECIDED: Final = ("INCONCLUSIVE", "NOT_COMPARED", "NO_BASELINE")


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("base")
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[HEAD] [PYTEST ARGUMENTS]...")
@click.option(
    "--netpipe-json", "results", type=click.Path(dir_okay=False, path_type=Path),
    help="Write every measurement and comparison to a file.",
)  # fmt: skip
def ab(base: str, words: tuple[str, ...], results: Path | None) -> None:
    """Measure the git ref BASE and HEAD in turns on this machine, and compare them.

    HEAD is a git ref too; without it, the working tree is measured. The remaining arguments go to
    pytest: the folder of the performance tests (default: perf_tests), and flags. The first argument
    after BASE is HEAD unless it is a flag or names a file or folder. With HEAD, pytest runs in
    another folder: give absolute paths for files that it writes. No baseline is needed.
    """
    from netpipe.suite.against import TYPED_VARIABLE
    from netpipe.suite.other_version import open_version
    from netpipe.suite.worktrees import find_commit

    here = Path.cwd()
    commit = find_commit(here, base, "netpipe ab")
    has_head = bool(words) and not words[0].startswith("-") and not _is_path(words[0])
    head, arguments = (words[0], words[1:]) if has_head else ("", words)
    if not any(map(_is_path, arguments)):
        arguments = ("perf_tests", *arguments)
    opened: AbstractContextManager[Version | None] = nullcontext()
    if head:
        opened = open_version(find_commit(here, head, "netpipe ab"), here, "", notes.print)
    with tempfile.TemporaryDirectory() as folder, opened as version:
        results_file = results.absolute() if results else Path(folder, "run.json")
        # In the checkout of HEAD, a ref such as HEAD~1 would name another commit. So pytest gets
        # the hash, and the ref as it was typed only for its messages.
        ref, variables = (commit.sha, {TYPED_VARIABLE: base}) if head else (base, {})
        flags = [f"--netpipe-against={ref}", f"--netpipe-json={results_file}"]
        code = _run_pytest([*arguments, *flags], version, variables)
        sys.exit(_choose_exit_code(code, results_file))


def _is_path(word: str) -> bool:
    return Path(word.partition("::")[0]).exists()


def _run_pytest(
    words: Sequence[str], version: "Version | None", variables: Mapping[str, str]
) -> int:
    """Run pytest on the working tree, or on another version; return its exit code."""
    here = Path.cwd()
    if version is None:
        command, folder = [sys.executable, "-m", "pytest", *words], here
    else:
        environment = version.place(here)
        command = [version.python, "-m", "pytest", *version.move_paths(words, here)]
        folder = environment.folder or here
        variables = {**variables, **environment.variables}
    notes.print(" ".join(command), soft_wrap=True)
    with subprocess.Popen(command, cwd=folder, env={**os.environ, **variables}) as child:
        try:
            return child.wait()
        except KeyboardInterrupt:  # The terminal interrupted the child too, and it cleans up.
            child.wait()
            raise
        except SystemExit:  # SIGTERM reached only this process.
            child.terminate()
            raise


def _choose_exit_code(code: int, results_file: Path) -> int:
    """Return the command's exit code; unlike pytest, it has one for INCONCLUSIVE."""
    # pytest's 0 and 1 mean the same here; any other code means a run without a result.
    if code not in (FINE, FAILED):
        return MISUSE
    if not results_file.exists():
        return code
    comparisons = json.loads(results_file.read_text(encoding="utf-8"))["comparisons"]
    outcomes = [row["outcome"] for row in comparisons if row["against"] is not None]
    is_decided = any(outcome not in _UNDECIDED for outcome in outcomes)
    if not is_decided and (outcomes or code == FINE):
        return INCONCLUSIVE
    return INCONCLUSIVE if code == FINE and "INCONCLUSIVE" in outcomes else code
