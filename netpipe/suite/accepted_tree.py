"""The baselines that were accepted before the change under test: read from a commit, with git."""

import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from netpipe.errors import InputError

HERE: Final = "here"
AUTO: Final = "auto"
_OPTION: Final = "--netpipe-baselines-at"
_WHOLE_HISTORY: Final = (
    "Fetch the whole history (fetch-depth: 0 of actions/checkout, GIT_DEPTH: 0 on GitLab), or read "
    f"the baselines of the working tree with {_OPTION} {HERE}"
)


@dataclass(frozen=True)
class Commit:
    """The commit that baselines are read from.

    Attributes:
        sha: Its full name.
        what: What it is to the change under test.
    """

    sha: str
    what: str


def accepted_commit(at: str, root: Path, environment: Mapping[str, str]) -> Commit | None:
    """Find the commit whose baselines a run is held against.

    Args:
        at: A commit, `here` for none, or `auto`: where a pull or merge request is tested, what it
            branched off from.
        root: A folder of the repository.
        environment: Says what is tested, as GitHub Actions and GitLab set it.

    Returns:
        The commit; None for the working tree.

    Raises:
        InputError: It is not in the history that is here.
    """
    target = environment.get("GITHUB_BASE_REF")
    diff_base = environment.get("CI_MERGE_REQUEST_DIFF_BASE_SHA")
    if at == AUTO and target:
        what = f"the merge base of HEAD and origin/{target}"
        return Commit(_found(root, what, "merge-base", "HEAD", f"origin/{target}"), what)
    if at == AUTO and diff_base:
        return _named(root, diff_base, "the base of the merge request")
    return None if at in (AUTO, HERE) else _named(root, at, at)


def _named(root: Path, name: str, what: str) -> Commit:
    return Commit(
        _found(root, what, "rev-parse", "--verify", "--quiet", f"{name}^{{commit}}"), what
    )


def _found(root: Path, what: str, *words: str) -> str:
    answer = _git(root, *words)
    if answer.returncode:
        said = answer.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        constraint = f"find {what} in this clone"
        raise InputError(_OPTION, "git", constraint, said or "no such commit", _WHOLE_HISTORY)
    return answer.stdout.decode().strip()


def write_tree(commit: Commit, folder: Path, root: Path, into: Path) -> None:
    """Write what a folder held at a commit into another one.

    Args:
        commit: In the repository of `root`.
        folder: As it is called in the working tree, which may lack it.
        root: A folder of the repository.
        into: Made; empty where the commit had no such folder.

    Raises:
        InputError: The folder lies outside the repository, or git cannot read the commit.
    """
    into.mkdir(parents=True)
    top = Path(_read(root, "rev-parse", "--show-toplevel").decode().rstrip("\n"))
    if not folder.resolve().is_relative_to(top):
        way_out = f"Or read what lies there now: {_OPTION} {HERE}"
        raise InputError(_OPTION, "baselines", f"lie in the repository {top}", folder, way_out)
    within = folder.resolve().relative_to(top).as_posix()
    for blob, name in _blobs(top, commit, within):
        path = into / Path(name).relative_to(within)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(_read(top, "cat-file", "blob", blob))


def _blobs(top: Path, commit: Commit, within: str) -> Iterator[tuple[str, str]]:
    """Give object and path of every plain file that a commit has in a folder."""
    # git archive would leave out, and change, what the attributes of that commit say.
    listing = _read(top, "ls-tree", "-r", "-z", commit.sha, "--", f"{within}/")
    for entry in listing.decode().split("\0")[:-1]:
        about, _, name = entry.partition("\t")
        mode, _, blob = about.split()
        if mode.startswith("100"):
            yield blob, name


def _read(folder: Path, *words: str) -> bytes:
    answer = _git(folder, *words)
    if answer.returncode:
        said = answer.stderr.decode(errors="replace").strip()
        raise InputError(_OPTION, f"git {words[0]}", "succeed", said, _WHOLE_HISTORY)
    return answer.stdout


def _git(folder: Path, *words: str) -> "subprocess.CompletedProcess[bytes]":
    command = ["git", "-C", str(folder), *words]
    try:
        return subprocess.run(command, capture_output=True, check=False, stdin=subprocess.DEVNULL)
    except OSError as error:
        raise InputError(_OPTION, "git", "be runnable", error.strerror) from error
