"""Another version of a git repository, beside the one that is here: a worktree of its own."""

import os
import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from netpipe.errors import InputError
from netpipe.git import GitError, git


@dataclass(frozen=True)
class Commit:
    """A commit that a user named.

    Attributes:
        repository: The top folder of the checkout in which it was named.
        ref: Its name, as given.
        sha: What that comes to.
    """

    repository: Path
    ref: str
    sha: str


@dataclass(frozen=True)
class Checkout:
    """A worktree of a commit, beside the checkout in which it was named.

    Attributes:
        commit: What is checked out.
        folder: Its top folder.
    """

    commit: Commit
    folder: Path

    def there(self, path: Path) -> Path:
        """Return where a path of this checkout lies in the other one; itself when outside.

        Links that lead into this checkout are followed, those in it that lead out of it are not.
        """
        for outer in (*reversed(path.parents), path):
            inner = outer.resolve()
            if inner.is_relative_to(self.commit.repository):
                within = inner.relative_to(self.commit.repository)
                return self.folder / within / path.relative_to(outer)
        return path

    def others(self) -> tuple[str, ...]:
        """Return every other checkout of the repository."""
        listed = git(self.folder, "worktree", "list", "--porcelain").splitlines()
        folders = [line.partition(" ")[2] for line in listed if line.startswith("worktree ")]
        return tuple(one for one in folders if Path(one).resolve() != self.folder)


def named_commit(folder: Path, ref: str, option: str) -> Commit:
    """Return the commit that a ref names in the repository of a folder.

    Args:
        folder: Lies in a checkout.
        ref: A branch, a tag, a commit.
        option: Where it was given, for the message.

    Raises:
        InputError: The folder lies in no checkout, or has no such commit.
    """
    try:
        top = git(folder, "rev-parse", "--show-toplevel")
    except GitError as error:
        raise InputError(
            option, "the folder", "lie in a git checkout", folder, str(error)
        ) from None
    try:
        sha = git(
            folder, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}"
        )
    except GitError:
        raise InputError(
            option, "REF", f"name a commit of {top}", repr(ref),
            "A shallow clone must fetch it first",
        ) from None  # fmt: skip
    return Commit(Path(top).resolve(), ref, sha)


def check_out(commit: Commit, folder: Path) -> Checkout:
    """Make a worktree of a commit.

    Args:
        commit: What to check out, detached.
        folder: Where; it must not be there yet.

    Raises:
        InputError: git cannot.
    """
    try:
        # A repository's hooks are for those who work in it.
        git(
            commit.repository, "-c", f"core.hooksPath={os.devnull}",
            "worktree", "add", "--detach", str(folder), commit.sha,
        )  # fmt: skip
    except GitError as error:
        raise InputError(commit.repository, "git", "check out", commit.ref, str(error)) from None
    return Checkout(commit, folder.resolve())


def known_files(folder: Path) -> frozenset[str]:
    """Return the names of the files in a folder of a checkout that git is not told to ignore."""
    words = ("ls-files", "-z", "--cached", "--others", "--exclude-standard", ":(glob)*")
    names = git(folder, *words).split("\0")
    return frozenset(one for one in names if (folder / one).is_file())


def remove(commit: Commit, folder: Path) -> None:
    """Remove a worktree, half made ones too, and what git knows of it."""
    try:
        git(commit.repository, "worktree", "remove", "--force", "--force", str(folder))
    except GitError:
        shutil.rmtree(folder, ignore_errors=True)
        with suppress(GitError):
            git(commit.repository, "worktree", "prune")
