"""The files of a session: its result, and beside it its progress and its threads' last stacks."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal, NotRequired, TypedDict

from netpipe.errors import HangError, MisuseError, NoSuchTestError, SessionError
from netpipe.jobs.request import SessionRequest
from netpipe.results.fields import Must, Text
from netpipe.results.measurement import Measurement
from netpipe.whole_file import write_whole

SCHEMA: Final = "netpipe.session/1"
_ERRORS: Final = {
    "misuse": MisuseError,
    "hang": HangError,
    "missing": NoSuchTestError,
    "failed": SessionError,
}


class ReportedError(TypedDict):
    """Why a session failed."""

    #: misuse: what was handed over is not what it must be. hang: no batch came. missing: there is
    #: no such test. failed: the user's code raised.
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


def partial_result_file(request: SessionRequest) -> Path:
    """Return where a session keeps an incomplete result."""
    return Path(request.result).with_name("partial.json")


def stacks_file(request: SessionRequest) -> Path:
    """Return where a session whose GIL was held until its limit leaves its threads' stacks."""
    return Path(request.result).with_name("stacks.txt")


def progress_file(request: SessionRequest) -> Path:
    """Return where a session writes its progress."""
    return Path(request.result).with_name("progress.json")


def write_result(
    request: SessionRequest, document: Mapping[str, object], *, is_whole: bool = True
) -> None:
    """Write a result under its key, or an `error_document`, completely or not at all.

    An incomplete result (`is_whole` is false) counts only if the session ends without a complete
    one.
    """
    result = Path(request.result) if is_whole else partial_result_file(request)
    text = json.dumps({"schema": SCHEMA, **document}, allow_nan=False)
    write_whole(result, text, "session", lasts=False)


def error_document(kind: str, message: str) -> dict[str, object]:
    """Return the result of a failed session; the kind is one of `_ERRORS`."""
    return {"error": {"kind": kind, "message": message}}


def read_result(result: Path, key: str) -> Any:
    """Return what a session's result file has under a key.

    Raises:
        HarnessError: The error that the session reported, or a `SessionError` when the file is not
            a session's result.
    """
    try:
        document = json.loads(result.read_text(encoding="utf-8"))
        if "error" not in document:
            return document[key]
        failure = _ERRORS[document["error"]["kind"]](document["error"]["message"])
    except (ValueError, KeyError, TypeError) as error:
        raise SessionError(f"the session's result must be a {SCHEMA}; found {error!r}") from error
    raise failure
