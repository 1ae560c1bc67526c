"""`netpipe ab`: two versions of a project, measured in turns on this machine."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from netpipe.cli.console import FAILED, FINE, INCONCLUSIVE, MISUSE, notes, report_errors

if TYPE_CHECKING:
    from netpipe.suite.other_version import Version

_UNDECIDED: Final = ("INCONCLUSIVE", "NOT_COMPARED", "NO_BASELINE")
# With any other exit code of pytest, nothing was decided.
_EXIT_CODES: Final = {0: FINE, 1: FAILED}


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("base")
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[HEAD] [PYTEST ARGUMENTS]...")
@click.option(
    "--netpipe-json", "results", type=click.Path(dir_okay=False, path_type=Path),
    help="Write every measurement and comparison to a file.",
)  # fmt: skip
@report_errors
def ab(base: str, words: tuple[str, ...], results: Path | None) -> None:
    """Measure the git ref BASE and HEAD in turns on this machine, and compare them.

    HEAD is a git ref too; without it, the working tree is measured. The remaining arguments go to
    pytest: the folder of the performance tests (default: perf_tests), and flags. The first argument
    after BASE is HEAD unless it is a flag or names a file or folder. With HEAD, give files for
    pytest to write as absolute paths. No baseline is needed.
    """
    from netpipe.suite.against import TYPED_VARIABLE
    from netpipe.suite.worktrees import find_commit

    commit = find_commit(Path.cwd(), base, "netpipe ab")
    head, arguments = _split(words)
    if not any(map(_is_path, arguments)):
        arguments = ("perf_tests", *arguments)
    with tempfile.TemporaryDirectory() as folder, _version(head) as version:
        written = results.absolute() if results else Path(folder, "run.json")
        # In the checkout of HEAD, a ref like HEAD~1 would name another commit.
        ref, variables = (commit.sha, {TYPED_VARIABLE: base}) if head else (base, {})
        flags = [f"--netpipe-against={ref}", f"--netpipe-json={written}"]
        code = _pytest([*arguments, *flags], version, variables)
        sys.exit(_exit_code(code, written))


def _split(words: Sequence[str]) -> tuple[str, Sequence[str]]:
    """Return HEAD, "" for none, and the arguments of pytest."""
    if words and not words[0].startswith("-") and not _is_path(words[0]):
        return words[0], words[1:]
    return "", words


def _is_path(word: str) -> bool:
    return Path(word.partition("::")[0]).exists()


@contextmanager
def _version(head: str) -> "Iterator[Version | None]":
    """Check HEAD out; give None for the working tree."""
    from netpipe.suite.other_version import open_version
    from netpipe.suite.worktrees import find_commit

    if not head:
        yield None
        return
    commit = find_commit(Path.cwd(), head, "netpipe ab")
    with open_version(commit, Path.cwd(), "", notes.print) as version:
        yield version


def _pytest(words: Sequence[str], version: "Version | None", variables: Mapping[str, str]) -> int:
    """Run pytest on this version or another one; return its exit code."""
    here = Path.cwd()
    if version is None:
        command, folder = [sys.executable, "-m", "pytest", *words], here
    else:
        place = version.place(here)
        command = [version.python, "-m", "pytest", *version.move_paths(words, here)]
        folder, variables = place.folder or here, {**variables, **place.variables}
    notes.print(" ".join(command), soft_wrap=True)
    with subprocess.Popen(command, cwd=folder, env={**os.environ, **variables}) as child:
        try:
            return child.wait()
        except KeyboardInterrupt:  # The terminal interrupted the child too, and it cleans up.
            child.wait()
            raise
        except SystemExit:  # SIGTERM reached only this process.
            child.terminate()
            child.wait()
            raise


def _exit_code(code: int, written: Path) -> int:
    """Return the command's exit code; INCONCLUSIVE has its own, unlike in pytest."""
    if code not in (0, 1) or not written.exists():
        return _EXIT_CODES.get(code, MISUSE)
    compared = json.loads(written.read_text(encoding="utf-8"))["comparisons"]
    outcomes = [one["outcome"] for one in compared if one["against"] is not None]
    is_decided = any(outcome not in _UNDECIDED for outcome in outcomes)
    if not is_decided and (outcomes or code == 0):
        return INCONCLUSIVE
    if code != 0:
        return _EXIT_CODES[code]
    return INCONCLUSIVE if "INCONCLUSIVE" in outcomes else FINE
