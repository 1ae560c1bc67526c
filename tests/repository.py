"""A small git repository for versions of a test project."""

import subprocess
from collections.abc import Mapping
from pathlib import Path

_SETTINGS = ("user.name=Tester", "user.email=tester@example.org", "commit.gpgsign=false")


def git(folder: Path, *words: str) -> str:
    """Run git in a folder; return what it prints."""
    settings = [word for setting in _SETTINGS for word in ("-c", setting)]
    command = ["git", "-C", str(folder), *settings, *words]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def init(folder: Path) -> Path:
    """Make a repository whose branch is main."""
    folder.mkdir(parents=True, exist_ok=True)
    git(folder, "init", "--quiet", "--initial-branch", "main")
    return folder


def commit(folder: Path, message: str = "change") -> str:
    """Commit all files of a repository; return the commit's hash."""
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--allow-empty", "--message", message)
    return git(folder, "rev-parse", "HEAD")


def commit_files(folder: Path, files: Mapping[str, str]) -> str:
    """Write and commit files, in a new repository if there is none; return the hash."""
    if not (folder / ".git").exists():
        init(folder)
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return commit(folder)


def worktrees(folder: Path) -> int:
    """Return the number of checkouts that git knows, including removed ones."""
    return git(folder, "worktree", "list", "--porcelain").count("worktree ")
