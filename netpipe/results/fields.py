"""Types for the fields of JSON documents, and the conversion of dataclasses to JSON and back.

`python -m tests.schemas` generates the JSON Schemas in `netpipe/schemas` from these types.
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
    """JSON Schema keywords for a field, in addition to those that its type implies.

    If a field has another type in JSON, `Annotated[Type, JsonType]` holds both types.

    Attributes:
        name: The name of the type's definition in the schema; "" for a type used only once.
    """

    def __init__(self, name: str = "", /, **keywords: object) -> None:
        self.name, self.keywords = name, keywords


MayBeAbsent = Annotated[T, "may be absent"]
"""A field that older documents, or documents of some kinds, do not have."""

Inlined = Annotated[T, "inlined"]
"""An object whose fields appear directly in the object that holds it."""

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
        low: The lower end; like `high`, null in JSON if there are too few rounds to bound it.
        n: The number of rounds done.
    """

    median: float
    low: Annotated[float, float | None]
    high: Annotated[float, float | None]
    n: int


class Document:
    """The base of dataclasses that are JSON documents of their own."""

    SCHEMA: ClassVar[str]

    def to_document(self) -> dict[str, Any]:
        """Return the dataclass as plain JSON values."""
        return {"schema": self.SCHEMA, **converter().unstructure(self)}


def parse(document: Mapping[str, Any], kind: type[T], where: object) -> T:
    """Build a dataclass from JSON values; other keys are ignored.

    Raises:
        InputError: A field is missing or has another type; `where` names the file of the values.
    """
    from cattrs import BaseValidationError, transform_error

    try:
        return converter().structure(document, kind)
    except BaseValidationError as error:
        found = "; ".join(transform_error(error))
        raise InputError(where, kind.__name__.lower(), "hold every field", found) from error


@cache
def converter() -> "Converter":
    """Return the converter for results; JSON has no infinity, so it makes unbounded ends null."""
    # Every command imports this module, so importing cattrs at the top would delay `--help`.
    from cattrs import Converter

    converter = Converter()
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
