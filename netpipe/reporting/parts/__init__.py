"""The content of a page: one module per kind of document, and a function that picks one."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from netpipe.history.entries import Entry
from netpipe.reporting.content import Part
from netpipe.reporting.parts.diagnosis import build_diagnosis_parts
from netpipe.reporting.parts.history import build_history_part
from netpipe.reporting.parts.lint import build_lint_part
from netpipe.reporting.parts.measurement import build_measurement_part, build_measurements_parts
from netpipe.reporting.parts.run import build_run_parts
from netpipe.reporting.parts.throughput import build_throughput_part
from netpipe.reporting.parts.training import build_training_part
from netpipe.reporting.parts.work import build_work_part
from netpipe.watching.window import Window

Document = Mapping[str, Any]

_BUILDERS: Final[Mapping[str, Callable[[Document], tuple[Part, ...]]]] = {
    "netpipe.measurement/1": lambda document: (build_measurement_part(document),),
    "netpipe.measurements/1": build_measurements_parts,
    "netpipe.lint/1": lambda document: (build_lint_part(document),),
    "netpipe.diagnosis/1": build_diagnosis_parts,
    "netpipe.run/1": build_run_parts,
    "netpipe.throughput/1": lambda document: (build_throughput_part(document),),
    "netpipe.work/1": lambda document: (build_work_part(document),),
}

SCHEMAS: Final = tuple(_BUILDERS)
"""The schemas of the documents that a page can show, besides logs of netpipe.watch."""


def build_parts(document: Document) -> tuple[Part, ...]:
    """Return the parts of a log of netpipe.watch, of a history, or of a document of `SCHEMAS`."""
    if document["schema"] == Entry.SCHEMA:
        return (build_history_part(document),)
    if document["schema"] == Window.SCHEMA:
        return (build_training_part(document),)
    return _BUILDERS[document["schema"]](document)
