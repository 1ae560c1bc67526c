"""Reads JSON and TOML files from untrusted sources, and refuses malformed or huge ones."""

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from netpipe.errors import InputError

MAX_JSON_BYTES: Final = 1 << 28
MAX_TOML_BYTES: Final = 1 << 20
MAX_LEVELS: Final = 100
"""The deepest nesting of lists and objects in a JSON file."""

_MAX_INTEGER_BITS: Final = 64
# No real quantity is larger, and the sum or product of a few such numbers is still finite.
_LARGEST_NUMBER: Final = 1e100
_MAX_SHOWN_LENGTH: Final = 80


def shorten(text: str, length: int = _MAX_SHOWN_LENGTH) -> str:
    """Return the beginning of a text for an error message, unprintable characters replaced."""
    shown = text if len(text) <= length else f"{text[:length]}..."
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in shown)


def quote(value: object) -> str:
    """Return the beginning of a value's repr, for an error message."""
    try:
        return shorten(repr(value))
    except RecursionError:
        return "deeply nested values"


def read_json(path: Path, way_out: str = "") -> Any:
    """Read a JSON file: UTF-8, each key of an object once, and no NaN or infinity.

    Integers have at most 64 bits, other numbers are at most 1e100, and nesting is at most
    `MAX_LEVELS` deep.

    Raises:
        InputError: The file cannot be read, is too large, or is not such JSON.
    """
    try:
        return parse_json(read_text(path, MAX_JSON_BYTES, way_out))
    except (ValueError, RecursionError) as error:
        raise InputError(path, "file", "be JSON", error, way_out) from error


def parse_json(text: str) -> Any:
    """Return the content of a text that `read_json` accepts.

    Raises:
        ValueError: The text is not such JSON; for deep nesting, it may be a RecursionError.
    """
    content = json.loads(text, object_pairs_hook=_make_object)
    _check_values([content], MAX_LEVELS)
    return content


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file; raise an InputError if it is unreadable, too large, or not TOML."""
    import tomllib  # Every run of pytest loads this module, but few read TOML.

    try:
        return tomllib.loads(read_text(path, MAX_TOML_BYTES))
    except (ValueError, RecursionError) as error:
        raise InputError(path, "file", "be TOML", error) from error


def read_project_table(folder: Path, name: str) -> tuple[Path, dict[str, Any]]:
    """Return the nearest pyproject.toml, and its table of a dotted name; empty if there is none.

    Raises:
        InputError: The file is not TOML, or the name is not that of a table.
    """
    paths = [parent / "pyproject.toml" for parent in (folder, *folder.parents)]
    path = next(filter(Path.is_file, paths), paths[0])
    table: Any = read_toml(path) if path.is_file() else {}
    for part in name.split("."):
        table = table.get(part, {})
        if not isinstance(table, dict):
            raise InputError(path, name, "be a table", quote(table))
    return path, table


def read_text(path: Path, limit: int, way_out: str = "") -> str:
    """Read a file as UTF-8; raise an InputError if it is unreadable or larger than `limit`."""
    try:
        with path.open("rb") as stream:
            content = stream.read(limit + 1)
    except OSError as error:
        raise InputError(path, "file", "be readable", error.strerror, way_out) from error
    if len(content) > limit:
        raise InputError(path, "file", f"have at most {limit:,} bytes", "more", way_out)
    return content.decode("utf-8-sig")


def _make_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        [(key, times)] = Counter(key for key, _ in pairs).most_common(1)
        raise ValueError(f"the key {quote(key)} {times} times in one object")
    return made


def _check_values(values: Iterable[object], levels: int) -> None:
    for value in values:
        if isinstance(value, int):
            if value.bit_length() > _MAX_INTEGER_BITS:
                raise ValueError(f"an integer of {value.bit_length()} bits")
        elif isinstance(value, float):
            if not abs(value) <= _LARGEST_NUMBER:
                raise ValueError(f"the number {value}")
        elif isinstance(value, dict | list):
            if not levels:
                raise ValueError(f"more than {MAX_LEVELS} levels of lists and objects")
            _check_values(value.values() if isinstance(value, dict) else value, levels - 1)
