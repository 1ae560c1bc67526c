"""A git repository to test with."""

import subprocess
from pathlib import Path

_SETTINGS = ("user.name=Tester", "user.email=tester@example.org", "commit.gpgsign=false")


def git(folder: Path, *words: str) -> str:
    """Run git in a folder; return what it prints."""
    settings = [word for setting in _SETTINGS for word in ("-c", setting)]
    command = ["git", "-C", str(folder), *settings, *words]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def commit(folder: Path, message: str = "change") -> str:
    """Commit everything that is in a repository; return the commit's name."""
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", message)
    return git(folder, "rev-parse", "HEAD")


def init(folder: Path) -> Path:
    """Make a repository whose branch is main."""
    folder.mkdir(parents=True, exist_ok=True)
    git(folder, "init", "--quiet", "--initial-branch", "main")
    return folder
