"""Which parts a document becomes, by its schema."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from netpipe.page.content import Part
from netpipe.page.parts.accelerators import measurements_parts
from netpipe.page.parts.diagnosis import diagnosis_parts
from netpipe.page.parts.lint import lint_part
from netpipe.page.parts.measurement import measurement_part
from netpipe.page.parts.run import run_parts
from netpipe.page.parts.throughput import throughput_part

Document = Mapping[str, Any]

_MAKERS: Final[Mapping[str, Callable[[Document], tuple[Part, ...]]]] = {
    "netpipe.measurement/1": lambda document: (measurement_part(document),),
    "netpipe.measurements/1": measurements_parts,
    "netpipe.lint/1": lambda document: (lint_part(document),),
    "netpipe.diagnosis/1": diagnosis_parts,
    "netpipe.run/1": run_parts,
    "netpipe.throughput/1": lambda document: (throughput_part(document),),
}

SCHEMAS: Final = tuple(_MAKERS)
"""What a page can be made of."""


def parts_of(document: Document) -> tuple[Part, ...]:
    """Return the parts of a document that fits one of `SCHEMAS`."""
    return _MAKERS[document["schema"]](document)
