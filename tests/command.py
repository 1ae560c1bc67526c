"""The `netpipe` command, run in this process, and the documents that it prints."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
from click.testing import Result
from referencing import Registry, Resource

SCHEMAS = Path(__file__).resolve().parent.parent / "netpipe" / "schemas"

Netpipe = Callable[..., Result]


def document(result: Result, schema: str) -> Any:
    """Return the JSON document on standard output, checked against its schema."""
    found = json.loads(result.stdout)
    registry: Registry[Any] = Registry().with_resources(
        (path.name, Resource.from_contents(json.loads(path.read_text())))
        for path in SCHEMAS.iterdir()
    )
    jsonschema.validate(found, json.loads((SCHEMAS / schema).read_text()), registry=registry)
    return found
