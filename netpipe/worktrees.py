"""Another version of a git repository: its worktree, and the dependencies that it declares."""

import os
import shutil
import tomllib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Final

from netpipe.errors import InputError
from netpipe.files.temporary_folders import OWN_NAME, locked
from netpipe.git import GitError, git

_DEPENDENCY_FILES: Final = (
    "setup.py", "setup.cfg", "requirements*.txt", "requirements*.in", "*.lock", "Pipfile",
    "pixi.toml", "environment*.yml",
)  # fmt: skip
_PROJECT_KEYS: Final = (
    "dependencies", "optional-dependencies", "requires-python", "scripts", "gui-scripts",
    "entry-points",
)  # fmt: skip
_REMOVE: Final = ("worktree", "remove", "--force", "--force")
_TOOLS: Final = ("poetry", "pdm", "uv", "pixi")
_HERE: Final = ":(glob)*"  # the files directly in a folder


@dataclass(frozen=True)
class Commit:
    """A commit of the checkout whose top folder is `repository`.

    `ref` is the name that a user gave it, or a description such as "the merge base of HEAD and
    origin/main". `typed` is the name that the user typed, if `ref` is only the commit's hash.
    """

    repository: Path
    ref: str
    sha: str
    typed: str = ""

    @property
    def label(self) -> str:
        """The commit's name for messages: as typed, or a shortened hash."""
        if self.typed:
            return f"{self.typed} ({self.sha[:7]})"
        return self.sha[:12] if self.ref == self.sha else self.ref


@dataclass(frozen=True)
class Checkout:
    """A worktree of a commit."""

    commit: Commit
    folder: Path

    def locate(self, path: Path) -> Path:
        """Map a path in the user's checkout into this worktree; return any other path unchanged.

        Links that lead into the user's checkout are followed; links that lead out of it are not.
        """
        for outer in (*reversed(path.parents), path):
            inner = outer.resolve()
            if inner.is_relative_to(self.commit.repository):
                within = inner.relative_to(self.commit.repository)
                return self.folder / within / path.relative_to(outer)
        return path


def find_commit(folder: Path, ref: str, option: str, typed: str = "") -> Commit:
    """Return the commit that a ref names; if there is none, raise an InputError about `option`."""
    try:
        top = git(folder, "rev-parse", "--show-toplevel")
    except GitError as error:
        constraint = "lie in a git checkout"
        raise InputError(option, "the folder", constraint, folder, str(error)) from None
    words = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}")
    try:
        return Commit(Path(top).resolve(), ref, git(folder, *words), typed)
    except GitError:
        way_out = "A shallow clone must fetch it first"
        raise InputError(option, "REF", f"name a commit of {top}", repr(ref), way_out) from None


@contextmanager
def check_out(commit: Commit, folder: Path) -> Iterator[Checkout]:
    """Yield a checkout of a commit in a new, detached worktree, and remove it at the end.

    Raises:
        InputError: git cannot make the worktree.
    """
    repository = commit.repository
    _remove_abandoned_worktrees(repository)
    # The hooks of a repository are not meant for temporary worktrees.
    add = ("-c", f"core.hooksPath={os.devnull}", "worktree", "add", "--detach")
    try:
        try:
            git(repository, *add, str(folder), commit.sha)
        except GitError as error:
            raise InputError(repository, "git", "check out", commit.ref, str(error)) from None
        # A container that shares only the repository cannot see the temporary folder's lock.
        with locked(Path(git(folder, "rev-parse", "--absolute-git-dir"))):
            yield Checkout(commit, folder.resolve())
    finally:
        shutil.rmtree(folder, ignore_errors=True)  # git does not remove an incomplete worktree.
        with suppress(GitError):
            git(repository, *_REMOVE, str(folder))


def _remove_abandoned_worktrees(repository: Path) -> None:
    """Remove the worktrees that killed processes of netpipe left in a repository."""
    common = repository / git(repository, "rev-parse", "--git-common-dir")
    for file in common.glob("worktrees/*/gitdir"):
        with ExitStack() as stack, suppress(OSError, GitError):
            folder = (file.parent / os.fsdecode(file.read_bytes()).strip()).parent
            if not OWN_NAME.fullmatch(folder.parent.name) or file.stat().st_uid != os.geteuid():
                continue
            owned = [file.parent, *filter(Path.exists, (folder.parent,))]
            if all(stack.enter_context(locked(each, waits=False)) for each in owned):
                git(repository, *_REMOVE, str(folder))


def declares_other_dependencies(checkout: Checkout, project: Path) -> bool:
    """Return whether another version declares different dependencies from this one.

    `project` is the folder of the project here, in or below the checkout's repository.
    """
    sha = checkout.commit.sha
    for folder in {project, checkout.commit.repository}:
        changed = git(
            folder, "diff", "--name-only", "--no-renames", "-z", "--relative", sha, "--", _HERE
        )
        added = git(folder, "ls-files", "-z", "--others", "--exclude-standard", "--", _HERE)
        names = {*changed.split("\0"), *added.split("\0")}
        if any(fnmatch(name, pattern) for name in names for pattern in _DEPENDENCY_FILES):
            return True
        there = checkout.locate(folder)
        if "pyproject.toml" in names and read_dependencies(folder) != read_dependencies(there):
            return True
    return False


def read_dependencies(folder: Path) -> object:
    """Return the dependencies in a folder's pyproject.toml, or its text if it is damaged."""
    file = folder / "pyproject.toml"
    text = file.read_text(encoding="utf-8", errors="replace") if file.is_file() else ""
    try:
        document = tomllib.loads(text)
        project, tools = document.get("project", {}), document.get("tool", {})
        return {
            **{key: project.get(key) for key in _PROJECT_KEYS},
            "dependency-groups": document.get("dependency-groups"),
            **{f"tool.{key}": tools.get(key) for key in _TOOLS},
        }
    except (ValueError, RecursionError, AttributeError):
        return text
