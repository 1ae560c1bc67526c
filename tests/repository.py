"""A small git repository that tests put versions of a project into."""

import subprocess
from pathlib import Path

_AUTHOR = ("-c", "user.name=A", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false")


def git(folder: Path, *words: str) -> str:
    """Run git in a folder; return what it prints."""
    command = ["git", "-C", str(folder), *_AUTHOR, *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def commit(folder: Path, files: dict[str, str]) -> str:
    """Write files and commit all that is there; make the repository first. Return the commit."""
    if not (folder / ".git").exists():
        git(folder, "init", "--quiet")
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--allow-empty", "--message", "another version")
    return git(folder, "rev-parse", "HEAD")


def worktrees(folder: Path) -> int:
    """Return how many checkouts git knows of, those that are gone included."""
    return git(folder, "worktree", "list", "--porcelain").count("worktree ")
