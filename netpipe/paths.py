"""Words that a user gives as paths, and that may be no paths."""

import os
from errno import ELOOP, ENAMETOOLONG
from pathlib import Path


def find_path_problem(word: str) -> str:
    """Return the constraint, following "must", that a word violates as a path; "" if it is one."""
    if not word:
        return "not be empty"
    try:
        word.encode()
        os.lstat(word)
    except ValueError:  # UnicodeEncodeError, for bytes that are no text, is one too
        return "be UTF-8 without NUL characters"
    except OSError as error:
        if error.errno in (ENAMETOOLONG, ELOOP):
            return f"be a path of this system ({error.strerror})"
    return ""


def exists(path: Path | str) -> bool:
    """Return whether a word names a file or a folder; others raise OSError from `Path.exists`."""
    return not find_path_problem(str(path)) and Path(path).exists()
