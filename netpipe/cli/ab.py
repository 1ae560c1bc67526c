"""`netpipe ab`: two versions of a project, measured in turns on this machine."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from netpipe.cli.console import FAILED, FINE, INCONCLUSIVE, MISUSE, notes, report_errors

if TYPE_CHECKING:
    from netpipe.suite.other_version import Version

_UNDECIDED: Final = ("INCONCLUSIVE", "NOT_COMPARED", "NO_BASELINE")
_OF_PYTEST: Final = {0: FINE, 1: FAILED}  # whatever else it ends with, nothing was decided


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

    Without HEAD it is the working tree as it is. A word that names a file or a folder is not taken
    for HEAD, but goes to pytest with what follows: the folder of the performance tests
    (perf_tests), and its flags; with HEAD, a file that pytest is to write needs its whole path. No
    baseline is needed.
    """
    from netpipe.suite.worktrees import named_commit

    compared_with = named_commit(Path.cwd(), base, "netpipe ab")
    head, arguments = _split(words)
    if not any(map(_is_path, arguments)):
        arguments = ("perf_tests", *arguments)
    with tempfile.TemporaryDirectory() as folder, _version(head) as version:
        written = results.absolute() if results else Path(folder, "run.json")
        # Another checkout would read HEAD~1 as its own.
        ref = compared_with.sha if head else base
        flags = [f"--netpipe-against={ref}", f"--netpipe-json={written}"]
        code = _pytest([*arguments, *flags], version)
        sys.exit(_exit_code(code, written))


def _split(words: Sequence[str]) -> tuple[str, Sequence[str]]:
    """Return HEAD, "" for none, and what goes to pytest."""
    if words and not words[0].startswith("-") and not _is_path(words[0]):
        return words[0], words[1:]
    return "", words


def _is_path(word: str) -> bool:
    return Path(word.partition("::")[0]).exists()


@contextmanager
def _version(head: str) -> "Iterator[Version | None]":
    """Check HEAD out, if there is one to check out."""
    from netpipe.suite.other_version import version_of
    from netpipe.suite.worktrees import named_commit

    if not head:
        yield None
        return
    commit = named_commit(Path.cwd(), head, "netpipe ab")
    with version_of(commit, Path.cwd(), "", notes.print) as version:
        yield version


def _pytest(words: Sequence[str], version: "Version | None") -> int:
    """Run pytest on this version or another one; return its exit code."""
    here = Path.cwd()
    if version is None:
        command, folder, variables = [sys.executable, "-m", "pytest", *words], here, {}
    else:
        place = version.place(here)
        command = [version.environment.python, "-m", "pytest", *version.moved(words, here)]
        folder, variables = place.folder or here, dict(place.variables)
    notes.print(" ".join(command), soft_wrap=True)
    with subprocess.Popen(command, cwd=folder, env={**os.environ, **variables}) as child:
        try:
            return child.wait()
        except KeyboardInterrupt:  # the terminal has told the child too, and it cleans up
            child.wait()
            raise
        except SystemExit:  # SIGTERM came to this process alone
            child.terminate()
            child.wait()
            raise


def _exit_code(code: int, written: Path) -> int:
    """Return the command's exit code: an open question is one, whatever pytest makes of it."""
    if code not in (0, 1) or not written.exists():
        return _OF_PYTEST.get(code, MISUSE)
    compared = json.loads(written.read_text(encoding="utf-8"))["comparisons"]
    outcomes = [one["outcome"] for one in compared if one["against"] is not None]
    is_decided = any(one not in _UNDECIDED for one in outcomes)
    if not is_decided and (outcomes or code == 0):
        return INCONCLUSIVE
    if code != 0:
        return _OF_PYTEST[code]
    return INCONCLUSIVE if "INCONCLUSIVE" in outcomes else FINE
