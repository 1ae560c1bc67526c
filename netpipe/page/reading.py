"""Documents as they come from files and from other parts of netpipe."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from netpipe.errors import InputError
from netpipe.page.parts.registry import SCHEMAS
from netpipe.results.documents import check_document

_NEWER: Final = re.compile(r"netpipe\.[a-z]+/([2-9]|[1-9]\d+)")

# What no page can hold, or what would change the order of all that stands behind it.
_UNPRINTABLE: Final = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)


def read_document(path: Path) -> dict[str, Any]:
    """Read one of netpipe's JSON documents.

    Raises:
        InputError: The file cannot be read, is no JSON, or is not what its schema says.
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(path, "file", "be readable", error.strerror) from error
    except (ValueError, RecursionError) as error:
        way_out = "What a command prints with --json is"
        raise InputError(path, "file", "be JSON", error, way_out) from error
    schema = document.get("schema") if isinstance(document, dict) else None
    if schema not in SCHEMAS:
        raise _other_schema(path, schema)
    check_document(document, schema.removeprefix("netpipe.").replace("/", "."), path)
    whole: dict[str, Any] = document
    return whole


def _other_schema(path: Path, found: object) -> InputError:
    if isinstance(found, str) and _NEWER.fullmatch(found):
        way_out = "A newer netpipe wrote it: upgrade this one"
    else:
        way_out = "measure, lint, diagnose and throughput print one with --json"
    constraint = f"be one of {', '.join(SCHEMAS)}"
    return InputError(path, "schema", constraint, repr(found), way_out)


def printable(value: Any) -> Any:
    """Return JSON values with all texts in them such as a page can hold."""
    if isinstance(value, str):
        return _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", value)
    if isinstance(value, Mapping):
        return {printable(name): printable(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [printable(one) for one in value]
    return value
