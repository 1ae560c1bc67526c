"""The document of a session: its result or its error, for the process that started it."""

from typing import Annotated, Any, Literal, NotRequired, TypedDict

from netpipe.results.fields import Must, Text
from netpipe.results.measurement import Measurement


class ReportedError(TypedDict):
    """Why a session failed."""

    #: misuse: a loader, a step, a loop or a setting is unsuitable. hang: no batch came. missing:
    #: there is no such test. failed: the user's code raised.
    kind: Literal["misuse", "hang", "missing", "failed"]
    message: Text


class SessionDocument(TypedDict):
    """A session's result or error, for the process that started it."""

    schema: Literal["netpipe.session/1"]
    measurement: NotRequired[Measurement]
    lint: NotRequired[Annotated[dict[str, Any], Must(ref="lint.1.json")]]
    throughput: NotRequired[Annotated[dict[str, Any], Must(ref="throughput.1.json#/$defs/Tally")]]
    error: NotRequired[ReportedError]


OneResult = Annotated[
    SessionDocument,
    Must(oneOf=[{"required": [key]} for key in ("measurement", "lint", "throughput", "error")]),
]
