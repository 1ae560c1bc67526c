"""netpipe's own JSON documents, held against the schemas that it ships when they are read."""

import json
from collections.abc import Callable, Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Final

from jsonschema import Draft202012Validator, ValidationError
from jsonschema.exceptions import best_match
from referencing import Registry, Resource

from netpipe.errors import InputError

_LONGEST_SHOWN: Final = 80


def check_document(
    document: object, name: str, where: object, within: str = "", way_out: str = ""
) -> None:
    """Check that a document is what its schema says.

    Args:
        document: Plain JSON values.
        name: The schema, "baseline.1".
        where: The file that the document comes from.
        within: The field of the file that holds it; "" for the whole file.
        way_out: What the user can do.

    Raises:
        InputError: It is not; the field that is furthest off is named.
    """
    error = best_match(_validator(name).iter_errors(document))
    if error is not None:
        field = within + error.json_path.removeprefix("$")
        found = _shown(error.instance)
        raise InputError(where, field.lstrip(".") or "content", _constraint(error), found, way_out)


@cache
def _validator(name: str) -> Draft202012Validator:
    contents = {
        file.name: json.loads(file.read_text(encoding="utf-8"))
        for file in (files("netpipe") / "schemas").iterdir()
        if file.name.endswith(".json")
    }
    registry: Registry[Any] = Registry().with_resources(
        (one, Resource.from_contents(content)) for one, content in contents.items()
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
        # jsonschema's own words name the property that is missing, or too many.
        return f"fit its schema ({error.message})"
    worded = _CONSTRAINTS.get(str(error.validator))
    if worded is None:
        return f"fit its schema ({error.validator} {error.validator_value})"
    return worded(error.validator_value)


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}..."
