"""git, run in a folder."""

import os
import subprocess
from pathlib import Path
from typing import Final

# git sets them for its hooks; they override the folder.
_HOOK_VARIABLES: Final = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX")


class GitError(Exception):
    """git refused; the message is its own."""


def git(folder: Path, *words: str) -> str:
    """Run git in a folder and return what it prints, without spaces around it.

    Raises:
        GitError: git failed, or is not installed.
    """
    environment = {name: value for name, value in os.environ.items() if name not in _HOOK_VARIABLES}
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *words],
            env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
    except OSError as error:
        raise GitError(f"git cannot be run: {error.strerror}") from error
    if done.returncode:
        raise GitError(done.stderr.strip().rpartition("\n")[2])
    return done.stdout.strip()
