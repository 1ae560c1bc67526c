"""Documents as they come from files and from other parts of netpipe."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from netpipe.errors import InputError
from netpipe.page.parts import SCHEMAS
from netpipe.results.documents import check_document

_NEWER_SCHEMA: Final = re.compile(r"netpipe\.[a-z]+/([2-9]|[1-9]\d+)")

# Characters that XML and UTF-8 do not allow, and those that reverse the text after them.
_UNPRINTABLE: Final = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)


def read_document(path: Path) -> dict[str, Any]:
    """Read one of netpipe's JSON documents.

    Raises:
        InputError: The file cannot be read, is not JSON, or does not fit its schema.
    """
    try:
        document: Any = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(path, "file", "be readable", error.strerror) from error
    except (ValueError, RecursionError) as error:
        way_out = "The commands print JSON with --json"
        raise InputError(path, "file", "be JSON", error, way_out) from error
    schema = document.get("schema") if isinstance(document, dict) else None
    if not isinstance(document, dict) or schema not in SCHEMAS:
        way_out = "measure, lint, diagnose and throughput print such a document with --json"
        if _NEWER_SCHEMA.fullmatch(str(schema)):
            way_out = "A newer netpipe wrote it: upgrade this one"
        constraint = f"be one of {', '.join(SCHEMAS)}"
        raise InputError(path, "schema", constraint, repr(schema), way_out)
    check_document(document, schema.removeprefix("netpipe.").replace("/", "."), path)
    return document


def replace_unprintable(value: Any) -> Any:
    """Replace the characters in all texts of a JSON value that a page cannot hold."""
    if isinstance(value, str):
        return _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", value)
    if isinstance(value, Mapping):
        return {replace_unprintable(key): replace_unprintable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return list(map(replace_unprintable, value))
    return value
