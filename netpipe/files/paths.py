"""Checks of paths that a user gives."""

import os
from errno import ELOOP, ENAMETOOLONG
from pathlib import Path


def find_path_problem(word: str) -> str:
    """Return the constraint that a word violates, to follow "must"; "" for a valid path."""
    if not word:
        return "not be empty"
    if "://" in word:
        return "be a local one: copy what a URI names, or mount its bucket"
    try:
        word.encode()
        os.lstat(word)
    except ValueError:  # includes UnicodeEncodeError, for bytes that are not UTF-8
        return "be UTF-8 without NUL characters"
    except OSError as error:
        if error.errno in (ENAMETOOLONG, ELOOP):
            return f"be a path of this system ({error.strerror})"
    return ""


def exists(path: Path | str) -> bool:
    """Return whether a path exists; False for an invalid path, where `Path.exists` may raise."""
    return not find_path_problem(str(path)) and Path(path).exists()
