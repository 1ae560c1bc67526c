"""Checks of the words that a user gives as paths."""

import os
from errno import ELOOP, ENAMETOOLONG
from pathlib import Path


def find_path_problem(word: str) -> str:
    """Return the constraint on paths, following "must", that a word violates; "" for a path."""
    if not word:
        return "not be empty"
    if "://" in word:
        return "be a local one: copy what a URI names, or mount its bucket"
    try:
        word.encode()
        os.lstat(word)
    except ValueError:  # also a UnicodeEncodeError, for bytes that are not text
        return "be UTF-8 without NUL characters"
    except OSError as error:
        if error.errno in (ENAMETOOLONG, ELOOP):
            return f"be a path of this system ({error.strerror})"
    return ""


def exists(path: Path | str) -> bool:
    """Return whether a word names a file or a folder; `Path.exists` raises OSError for others."""
    return not find_path_problem(str(path)) and Path(path).exists()
