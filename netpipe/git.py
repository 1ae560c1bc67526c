"""Runs git in a folder."""

import os
import subprocess
from pathlib import Path
from typing import Final

# git sets these variables for its hooks; they would override the folder.
_HOOK_VARIABLES: Final = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX")


class GitError(Exception):
    """git failed; the message comes from git."""


def git(folder: Path, *words: str) -> str:
    """Run git in a folder and return its output, stripped; raise a GitError if it fails."""
    return git_bytes(folder, *words).decode(errors="replace").strip()


def git_bytes(folder: Path, *words: str) -> bytes:
    """Run git in a folder and return its raw output; raise a GitError if it fails."""
    environment = {name: value for name, value in os.environ.items() if name not in _HOOK_VARIABLES}
    command = ["git", "-C", str(folder), *words]
    try:
        done = subprocess.run(
            command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, check=False
        )
    except (OSError, ValueError) as error:  # ValueError: a word contains a NUL character
        raise GitError(f"git cannot be run: {error}") from error
    if done.returncode:
        raise GitError(done.stderr.decode(errors="replace").strip().rpartition("\n")[2])
    return done.stdout
