"""The values that a field of a JSON document may have, and dataclasses as JSON and back.

`python -m tests.schemas` writes the JSON Schemas in `netpipe/schemas` from types made of these.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from math import inf, isfinite
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeVar

from netpipe.errors import InputError

if TYPE_CHECKING:
    from cattrs import Converter

T = TypeVar("T")


class Must:
    """Keywords of JSON Schema that apply to a field besides those that its type implies.

    `ref` names another document's schema instead. If the JSON values of a field are of another
    type, `Annotated[Type, JsonType]` has both.
    """

    def __init__(self, **keywords: object) -> None:
        self.keywords = keywords


MayBeAbsent = Annotated[T, "may be absent"]
"""A field that a document may lack: it is newer than others, or not in every document."""

Inlined = Annotated[T, "inlined"]
"""An object whose fields are written in its place."""

Count = Annotated[int, Must(minimum=0)]
PositiveCount = Annotated[int, Must(minimum=1)]
Amount = Annotated[float, Must(minimum=0)]
PositiveAmount = Annotated[float, Must(exclusiveMinimum=0)]
Fraction = Annotated[float, Must(minimum=0, maximum=1)]
Text = Annotated[str, Must(minLength=1)]


@dataclass(frozen=True)
class Interval:
    """A median with its 95% interval, in the unit of the field that holds it.

    Attributes:
        low: Null in JSON if there are too few rounds to bound it; the same holds for `high`.
        n: Rounds done.
    """

    median: float
    low: Annotated[float, float | None]
    high: Annotated[float, float | None]
    n: int


class Document:
    """The base of dataclasses that are JSON documents of their own."""

    SCHEMA: ClassVar[str]

    def to_document(self) -> dict[str, Any]:
        """Return this as plain JSON values."""
        return {"schema": self.SCHEMA, **converter().unstructure(self)}


def parse(document: Mapping[str, Any], kind: type[T], where: object) -> T:
    """Build a dataclass from its JSON values; an InputError names their file, `where`."""
    from cattrs import BaseValidationError, transform_error

    try:
        return converter().structure(document, kind)
    except BaseValidationError as error:
        found = "; ".join(transform_error(error))
        raise InputError(where, kind.__name__.lower(), "hold every field", found) from error


@cache
def converter() -> "Converter":
    """Return the converter of results; JSON has no infinity, so an unbounded end is null."""
    # Every command imports this module, even one that only prints its help.
    from cattrs import Converter

    converter = Converter(forbid_extra_keys=True)
    converter.register_unstructure_hook(
        Interval,
        lambda interval: {
            name: value if isfinite(value) else None for name, value in asdict(interval).items()
        },
    )
    converter.register_structure_hook(Interval, _parse_interval)
    return converter


def _parse_interval(document: Mapping[str, Any], _: type) -> Interval:
    low, high = document["low"], document["high"]
    return Interval(
        median=float(document["median"]),
        low=-inf if low is None else float(low),
        high=inf if high is None else float(high),
        n=int(document["n"]),
    )
