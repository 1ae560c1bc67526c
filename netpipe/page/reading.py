"""Documents as they come from files and from other parts of netpipe."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from netpipe.page.parts import SCHEMAS
from netpipe.printable import make_printable
from netpipe.results.documents import check_document, check_schema
from netpipe.text_files import read_json

_WAY_OUT: Final = "measure, lint, diagnose and throughput print such a document with --json"


def read_document(path: Path) -> dict[str, Any]:
    """Read one of netpipe's JSON documents.

    Raises:
        InputError: The file cannot be read, is not JSON, or does not fit its schema.
    """
    document: dict[str, Any] = read_json(path, _WAY_OUT, accepts_pipe=True)
    schema = document.get("schema") if isinstance(document, dict) else None
    check_schema(schema, SCHEMAS, path, way_out=_WAY_OUT)
    check_document(document, str(schema).removeprefix("netpipe.").replace("/", "."), path)
    return document


def replace_unprintable(value: Any) -> Any:
    """Replace the characters in all texts of a JSON value that a page cannot hold."""
    if isinstance(value, str):
        return make_printable(value)
    if isinstance(value, Mapping):
        return {replace_unprintable(key): replace_unprintable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return list(map(replace_unprintable, value))
    return value
