"""Validation of netpipe's own JSON documents against its bundled schemas."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from graphlib import CycleError, TopologicalSorter
from importlib.resources import files
from itertools import chain
from math import inf
from typing import Any, Final

from jsonschema import Draft202012Validator, ValidationError
from jsonschema.exceptions import best_match
from jsonschema.validators import extend
from referencing import Registry
from referencing.jsonschema import DRAFT202012

from netpipe.errors import InputError
from netpipe.files.text_files import quote, shorten

_NEWER_SCHEMA: Final = re.compile(r"netpipe\.[a-z-]+/([2-9]|[1-9]\d+)")
_NEWER_WROTE_IT: Final = "A newer netpipe wrote it: upgrade this one"

# jsonschema also accepts 1.0 as an integer, but a float cannot index a list.
_INTEGERS: Final = Draft202012Validator.TYPE_CHECKER.redefine(
    "integer", lambda _, value: isinstance(value, int) and not isinstance(value, bool)
)


def _check_items(
    validator: Any, schema: Any, instance: Any, _: object
) -> Iterator[ValidationError]:
    # A check takes 16 us, and an index has millions of numbers, so check each distinct one once.
    places = {
        place if type(item) in (list, dict) else (type(item), item): place
        for place, item in enumerate(instance if isinstance(instance, list) else ())
    }
    for place in places.values():
        yield from validator.descend(instance[place], schema, path=place)


def _check_interval(_: Any, __: object, instance: Any, ___: object) -> Iterator[ValidationError]:
    with suppress(TypeError, KeyError, AttributeError):  # other keywords report missing fields
        ends = {-inf: instance["low"], inf: instance["high"]}
        low, high = (end if value is None else value for end, value in ends.items())
        if not low <= instance["median"] <= high:
            yield ValidationError("")


def _check_graph(_: Any, __: object, instance: Any, ___: object) -> Iterator[ValidationError]:
    with suppress(TypeError, KeyError, AttributeError):
        parents = {node["id"]: node["parents"] for node in instance["graph"]}
        named = chain(
            *parents.values(),
            *(found["nodes"] for found in [*instance["findings"], *instance["silenced"]]),
        )
        try:
            TopologicalSorter(parents).prepare()
            is_whole = list(parents) == list(range(len(instance["graph"])))
        except CycleError:
            is_whole = False
        if not is_whole or not parents.keys() >= set(named):
            yield ValidationError("")


_Validator: Final[type[Draft202012Validator]] = extend(  # type: ignore[no-untyped-call]
    Draft202012Validator,
    # JSON Schema cannot compare two values, so the last two are our own keywords.
    {"items": _check_items, "containsMedian": _check_interval, "isGraph": _check_graph},
    type_checker=_INTEGERS,
)


def check_schema(
    found: object, allowed: tuple[str, ...], where: object, field: str = "schema", way_out: str = ""
) -> None:
    """Raise an InputError if a schema is not allowed; arguments as for `check_document`."""
    if found not in allowed:
        constraint = f"be {'one of ' if len(allowed) > 1 else ''}{', '.join(allowed)}"
        is_newer = isinstance(found, str) and _NEWER_SCHEMA.fullmatch(found)
        raise InputError(
            where, field, constraint, quote(found), _NEWER_WROTE_IT if is_newer else way_out
        )


def check_document(document: Any, name: str, where: object, way_out: str = "") -> None:
    """Check a document against a schema, such as "baseline.1".

    In the error, `where` names the document's file, and `way_out` says what the user can do.

    Raises:
        InputError: The document does not match; the error names the most relevant field.
    """
    error = best_match(_validator(name).iter_errors(document))
    if error is not None:
        field = shorten(error.json_path.removeprefix("$").lstrip(".")) or "content"
        raise InputError(where, field, _constraint(error), quote(error.instance), way_out)


@cache
def _validator(name: str) -> Draft202012Validator:
    contents = {
        file.name: json.loads(file.read_text(encoding="utf-8"))
        for file in (files("netpipe") / "schemas").iterdir()
        if file.name.endswith(".json")
    }
    for content in contents.values():
        del content["$schema"]  # it would replace our validator in referenced schemas
    registry: Registry[Any] = Registry().with_resources(
        (file, DRAFT202012.create_resource(content)) for file, content in contents.items()
    )
    return _Validator(contents[f"{name}.json"], registry=registry)


_CONSTRAINTS: Final[Mapping[str, Callable[[Any], str]]] = {
    "const": lambda value: f"be {value}",
    "enum": lambda values: f"be one of {', '.join(map(str, values))}",
    "type": lambda kinds: f"be of type {kinds if isinstance(kinds, str) else ' or '.join(kinds)}",
    "minimum": lambda value: f"be at least {value}",
    "maximum": lambda value: f"be at most {value}",
    "exclusiveMinimum": lambda value: f"be above {value}",
    "containsMedian": lambda _: "contain its median",
    "isGraph": lambda _: "number its nodes from 0 on, name no other node, and have no cycle",
    "minItems": lambda value: f"have at least {value} entries",
    "minLength": lambda value: f"have at least {value} characters",
    "pattern": lambda value: f"match {value}",
}


def _constraint(error: ValidationError) -> str:
    if error.validator in ("required", "additionalProperties"):
        # jsonschema's message names the missing or additional property.
        return f"fit its schema ({shorten(error.message)})"
    if describe := _CONSTRAINTS.get(str(error.validator)):
        return describe(error.validator_value)
    return f"fit its schema ({error.validator} {error.validator_value})"
