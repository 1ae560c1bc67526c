"""The accepted baselines and waivers that a run is compared with, and how a change alters them.

In a pull or merge request, the baselines are read from the commit that it branched off from, so
that a change cannot accept its own regressions unseen.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path
from typing import Final

from netpipe.errors import InputError
from netpipe.gate import waivers
from netpipe.gate.baseline_changes import FileChange, file_changes
from netpipe.gate.waivers import Waiver
from netpipe.git import GitError, git, git_bytes
from netpipe.worktrees import Commit

_HERE: Final = "here"
_OPTION: Final = "--netpipe-baselines-at"
_WAY_OUT: Final = (
    "Fetch the whole history (fetch-depth: 0 of actions/checkout, GIT_DEPTH: 0 on GitLab), or read "
    f"the baselines of the working tree with {_OPTION} {_HERE}"
)


@dataclass(frozen=True)
class Acceptance:
    """The baselines and waivers that a run is compared with.

    Attributes:
        shown: The baselines' folder in the working tree, relative to the root if inside it.
        commit: The commit of the baselines; None for the working tree.
        added: The waivers that are not in the commit.
    """

    baselines: Path = Path("baselines")
    shown: str = "baselines"
    commit: Commit | None = None
    changes: tuple[FileChange, ...] = ()
    waivers: tuple[Waiver, ...] = ()
    added: tuple[Waiver, ...] = ()
    today: date = field(default_factory=date.today)

    @property
    def waivers_file(self) -> str:
        """The path of the waivers' file, relative to the root if inside it."""
        return f"{self.shown}/{waivers.FILE}"


def read_acceptance(
    here: Path, at: str, root: Path, environment: Mapping[str, str], temporary: Callable[[], Path]
) -> Acceptance:
    """Read the baselines and waivers that a run is compared with.

    Args:
        here: The folder of baselines in the working tree.
        at: As for `find_accepted_commit`.
        root: The folder of the project.
        environment: The variables that GitHub Actions or GitLab set.
        temporary: Makes a folder that lasts as long as the run.

    Raises:
        InputError: The commit is missing, or an added baseline or the waivers' file is invalid.
    """
    acceptance = Acceptance(
        baselines=here,
        shown=here.relative_to(root).as_posix() if here.is_relative_to(root) else str(here),
        waivers=waivers.load(here / waivers.FILE),
    )
    commit = find_accepted_commit(at, root, environment)
    if commit is None:
        return acceptance
    accepted = temporary() / f"{here.name}@{commit.sha[:7]}"  # Error messages show this path.
    write_tree(commit, here, accepted)
    try:
        before = waivers.load(accepted / waivers.FILE)
    except InputError:
        before = ()  # The change may repair the file.
    return replace(
        acceptance,
        baselines=accepted,
        commit=commit,
        changes=tuple(file_changes(accepted, here)),
        added=tuple(waiver for waiver in acceptance.waivers if waiver not in before),
    )


def find_accepted_commit(at: str, root: Path, environment: Mapping[str, str]) -> Commit | None:
    """Find the commit whose baselines a run is compared with; None for the working tree.

    `at` is a commit, `here` for the working tree, or `auto`: in a pull or merge request, the commit
    that it branched off from.

    Raises:
        InputError: The commit is not in the local history.
    """
    if at == _HERE:
        return None
    words, description = ["rev-parse", "--verify", "--quiet", f"{at}^{{commit}}"], at
    if at == "auto":
        if target := environment.get("GITHUB_BASE_REF"):
            words = ["merge-base", "HEAD", f"origin/{target}"]
            description = f"the merge base of HEAD and origin/{target}"
        elif base := environment.get("CI_MERGE_REQUEST_DIFF_BASE_SHA"):
            words[-1] = f"{base}^{{commit}}"
            description = "the base of the merge request"
        else:
            return None
    try:
        top = Path(git(root, "rev-parse", "--show-toplevel"))
        return Commit(top, description, git(root, *words))
    except GitError as error:
        constraint, found = f"find {description} in this clone", str(error) or "no such commit"
        raise InputError(_OPTION, "git", constraint, found, _WAY_OUT) from error


def write_tree(commit: Commit, folder: Path, target: Path) -> None:
    """Write the regular files that a folder held at a commit into a new folder, `target`.

    Raises:
        InputError: The folder lies outside the commit's repository, or git cannot read the commit.
    """
    target.mkdir(parents=True)
    top = commit.repository
    try:
        if not folder.resolve().is_relative_to(top):
            way_out = f"Or read the files that are there now: {_OPTION} {_HERE}"
            raise InputError(_OPTION, "baselines", f"lie in the repository {top}", folder, way_out)
        within = folder.resolve().relative_to(top).as_posix()
        # git archive may omit files, because it applies the commit's export-ignore attributes.
        listing = git_bytes(top, "ls-tree", "-r", "-z", commit.sha, "--", f"{within}/")
        for entry in os.fsdecode(listing).split("\0")[:-1]:
            about, _, name = entry.partition("\t")
            mode, _, blob = about.split()
            if mode.startswith("100"):
                path = target / Path(name).relative_to(within)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(git_bytes(top, "cat-file", "blob", blob))
    except GitError as error:
        raise InputError(_OPTION, "git", f"read {commit.sha}", error, _WAY_OUT) from error
