"""Validation of netpipe's own JSON documents against the schemas that it ships."""

import json
from collections.abc import Callable, Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Final

from jsonschema import Draft202012Validator, ValidationError
from jsonschema.exceptions import best_match
from referencing import Registry, Resource

from netpipe.errors import InputError

_MAX_SHOWN_LENGTH: Final = 80


def check_document(
    document: object, name: str, where: object, within: str = "", way_out: str = ""
) -> None:
    """Check a document against a schema, such as "baseline.1".

    For the error, `where` is the document's file, `within` its field there, "" for the whole file,
    and `way_out` what the user can do.

    Raises:
        InputError: The document does not fit; the error names the best matching field.
    """
    error = best_match(_validator(name).iter_errors(document))
    if error is not None:
        field = within + error.json_path.removeprefix("$")
        found = repr(error.instance)
        if len(found) > _MAX_SHOWN_LENGTH:
            found = f"{found[:_MAX_SHOWN_LENGTH]}..."
        raise InputError(where, field.lstrip(".") or "content", _constraint(error), found, way_out)


@cache
def _validator(name: str) -> Draft202012Validator:
    contents = {
        file.name: json.loads(file.read_text(encoding="utf-8"))
        for file in (files("netpipe") / "schemas").iterdir()
        if file.name.endswith(".json")
    }
    registry: Registry[Any] = Registry().with_resources(
        (file, Resource.from_contents(content)) for file, content in contents.items()
    )
    return Draft202012Validator(contents[f"{name}.json"], registry=registry)


_CONSTRAINTS: Final[Mapping[str, Callable[[Any], str]]] = {
    "const": lambda value: f"be {value}",
    "enum": lambda values: f"be one of {', '.join(map(str, values))}",
    "type": lambda kinds: f"be of type {kinds if isinstance(kinds, str) else ' or '.join(kinds)}",
    "minimum": lambda value: f"be at least {value}",
    "maximum": lambda value: f"be at most {value}",
    "exclusiveMinimum": lambda value: f"be above {value}",
    "minItems": lambda value: f"have at least {value} entries",
    "minLength": lambda value: f"have at least {value} characters",
    "pattern": lambda value: f"match {value}",
}


def _constraint(error: ValidationError) -> str:
    if error.validator in ("required", "additionalProperties"):
        # jsonschema's message names the missing or the additional property.
        return f"fit its schema ({error.message})"
    if describe := _CONSTRAINTS.get(str(error.validator)):
        return describe(error.validator_value)
    return f"fit its schema ({error.validator} {error.validator_value})"
