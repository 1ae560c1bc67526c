"""The JSON documents: every field that a schema describes, however the schema is organised."""

import json
from collections.abc import Iterator
from functools import reduce
from operator import getitem
from typing import Any, Final

import pytest

from tests.outside.doors import schemas
from tests.outside.golden import HERE, check_lines

Schema = dict[str, Any]
_PARTS: Final = {"properties", "required", "items", "additionalProperties", "patternProperties"}
_UNSEEN: Final = {"$schema", "$id", "$defs", "title", "description", "type", "anyOf", "oneOf"}
_TYPES: Final = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    type(None): "null",
}


def complete(part: Any, file: str) -> Any:
    """Return a part of a schema without descriptions, with full references."""
    if isinstance(part, list):
        return [complete(each, file) for each in part]
    if not isinstance(part, dict):
        return part
    reference = part.get("$ref", "")
    whole = {"$ref": f"{file}{reference}"} if reference.startswith("#") else {}
    # A description is a text; a field of that name is a schema.
    kept = {key: value for key, value in part.items() if not is_description(key, value)}
    return {name: complete(each, file) for name, each in kept.items()} | whole


def is_description(key: str, value: object) -> bool:
    """Return whether a keyword only describes, without a constraint."""
    return key in ("description", "title") and isinstance(value, str)


SCHEMAS: Final = {file: complete(schema, file) for file, schema in schemas().items()}


def merge(schema: Any) -> Schema:
    """Return a schema with its references resolved; nullable if one choice is null."""
    merged = dict(schema) if isinstance(schema, dict) else {}
    others = merged.pop("allOf", [])
    if reference := merged.pop("$ref", ""):
        file, _, place = reference.partition("#")
        others = [*others, reduce(getitem, place.split("/")[1:], SCHEMAS[file])]
    for name in ("anyOf", "oneOf"):
        choices = [merge(each) for each in merged.get(name, ())]
        filled = [each for each in choices if each.get("type") != "null"]
        if len(filled) == 1 < len(choices):
            del merged[name]
            others = [*others, filled[0] | {"type": [*types(filled[0]), "null"]}]
    for other in map(merge, others):
        required = [*other.get("required", ()), *merged.get("required", ())]
        properties = dict(other.get("properties", {}))
        for name, field in merged.get("properties", {}).items():
            properties[name] = {"allOf": [properties[name], field]} if name in properties else field
        merged = other | merged | {"required": required, "properties": properties}
    return merged


def types(schema: Schema) -> list[str]:
    """Return the types of a value, which an enum or a constant may imply."""
    values = [*schema.get("enum", ()), *([schema["const"]] if "const" in schema else ())]
    named = schema.get("type", [])
    return [named] if isinstance(named, str) else named or sorted({_TYPES[type(v)] for v in values})


def flatten(schema: Any, path: str = "", *, needed: bool = True) -> Iterator[str]:
    """Yield a line for each field: its path, its types and its constraints."""
    merged = merge(schema)
    fields = merged.get("properties", {})
    values = {name: merged[name] for name in sorted(merged.keys() - _PARTS - _UNSEEN)}
    if "enum" in values:
        values["enum"] = sorted((each for each in values["enum"] if each is not None), key=str)
    said = [
        f"{path or 'document'}: {'|'.join(sorted(types(merged)))}",
        *["required"] * needed,
        *sorted(f"needs {name}" for name in set(merged.get("required", ())) - fields.keys()),
        *(f"{name} {json.dumps(value, sort_keys=True)}" for name, value in values.items()),
        *["closed"] * (merged.get("additionalProperties") is False),
    ]
    yield " ".join(said)
    for name, inner in sorted(fields.items()):
        inside = f"{path}.{name}".lstrip(".")
        yield from flatten(inner, inside, needed=name in merged.get("required", ()))
    inner = {"[]": merged.get("items"), ".*": merged.get("additionalProperties")}
    inner |= {f".{name}": each for name, each in merged.get("patternProperties", {}).items()}
    inner |= {
        f"<{name} {number}>": choice
        for name in ("anyOf", "oneOf")
        for number, choice in enumerate(merged.get(name, ()))
    }
    for suffix, each in inner.items():
        if isinstance(each, dict):
            yield from flatten(each, f"{path}{suffix}")


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_document_keeps_its_fields(name: str) -> None:
    """No field is renamed, removed, loosened or tightened."""
    check_lines(f"documents/{name.removesuffix('.json')}", flatten(SCHEMAS[name]))


def test_every_document_is_still_described() -> None:
    """Each golden file has a schema."""
    kept = {f"{path.stem}.json" for path in (HERE / "documents").iterdir()}
    assert kept == set(SCHEMAS)
