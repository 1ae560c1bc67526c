"""Trials in a file, one per line, written as soon as each is done, so that a run can be stopped."""

import json
from pathlib import Path
from typing import Any, TypeVar

from cattrs.errors import BaseValidationError

from netpipe.errors import InputError
from netpipe.results.fields import converter

Record = TypeVar("Record")


def append_record(path: Path, record: object) -> None:
    """Append a frozen dataclass to a file."""
    line = json.dumps(converter().unstructure(record), allow_nan=False)
    with path.open("a", encoding="utf-8") as stream:
        stream.write(line + "\n")


def read_records(path: Path, kind: type[Record]) -> list[Record]:
    """Read a file of dataclasses of one kind; a missing file has none.

    Raises:
        InputError: The file has other contents.
    """
    if not path.exists():
        return []
    read = converter()
    try:
        lines: list[Any] = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
        return [read.structure(line, kind) for line in lines]
    except (OSError, ValueError, KeyError, BaseValidationError) as error:
        found = repr(error)
        raise InputError(path, "--trials", f"hold a {kind.__name__} a line", found) from error
