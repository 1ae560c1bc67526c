"""Outcomes that a project accepts, each with a reason: `[tool.netpipe.judge.accept]`."""

from pathlib import Path
from typing import Final

from netpipe.errors import InputError
from netpipe.files.text_files import quote, read_project_table, shorten
from netpipe.judge.judgement import NOT_COMPARED, QUESTIONS, UNACCEPTED

_TABLE: Final = "tool.netpipe.judge.accept"


def read_declared(folder: Path, folder_before: Path) -> dict[str, str]:
    """Return the reasons by question and outcome, such as "data SAME_ELEMENTS".

    A line that the other version, in `folder_before`, already has was for an earlier change, and
    accepts nothing now. Only a line for what cannot be compared lasts.

    Raises:
        InputError: The nearest pyproject.toml is invalid.
    """
    path, table = read_project_table(folder, _TABLE)
    for key, why in table.items():
        question, _, outcome = key.partition(" ")
        if question not in QUESTIONS or outcome not in UNACCEPTED:
            allowed = ", ".join(UNACCEPTED)
            constraint = f'be a question and an outcome, such as "data SAME_ELEMENTS", of {allowed}'
            raise InputError(path, f"{_TABLE} key", constraint, quote(key))
        if not isinstance(why, str) or not why.strip():
            raise InputError(path, f"{_TABLE}.{shorten(key)}", "be the reason, as text", quote(why))
    _, earlier = read_project_table(folder_before, _TABLE)
    is_lasting = {key: key.endswith(NOT_COMPARED) for key in table}
    return {key: why for key, why in table.items() if is_lasting[key] or earlier.get(key) != why}
