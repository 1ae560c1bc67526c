"""What runs inside a session's process, whatever its job is: one result is written in any case."""

import argparse
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from netpipe.clock import MonotonicClock
from netpipe.errors import LoaderFailedError, NetpipeError
from netpipe.session.failure import told
from netpipe.session.progress import Teller
from netpipe.session.session import (
    SessionRequest,
    error_document,
    gather_sockets,
    is_abandoned,
    leave,
    progress_file,
    request_here,
    write_result,
)

_LOOK_S = 0.2


def requested(parser: argparse.ArgumentParser) -> SessionRequest:
    """Return what this process was asked for; end it where a person has started it."""
    request = request_here()
    if request is None:
        parser.error("this module is started by netpipe, not by hand")
    return request


def answer(request: SessionRequest, found: Callable[[ExitStack], dict[str, Any]]) -> None:
    """Write what `found` returns, or how it failed, as the result of the session.

    Args:
        request: What the session was asked for.
        found: Returns a document with one key, that of the result; whatever it raises is told.
            What it leaves to the stack, as closing a loader, is done once the result is written:
            it may take long, or never end.
    """
    gather_sockets(request)
    _watch_parent(request)
    with ExitStack() as closing:
        try:
            write_result(request, found(closing))
        except BaseException as error:  # noqa: BLE001  # what the user's code raises is the result
            misused = isinstance(error, NetpipeError) and not isinstance(error, LoaderFailedError)
            kind, message = ("misuse", str(error)) if misused else ("failed", told(error))
            write_result(request, error_document(kind, message))


def tell_of_import(request: SessionRequest, target: str) -> None:
    """Say that a target is imported: that can take long, and can fail."""
    Teller(progress_file(request), MonotonicClock()).doing(f"importing {target}")


def _watch_parent(request: SessionRequest) -> None:
    """End this session when nobody waits for its result any more: it would use the machine."""

    def look() -> None:
        while not is_abandoned(request):
            time.sleep(_LOOK_S)
        leave(request)

    if request.parent is not None:
        threading.Thread(target=look, name="netpipe-parent-watch", daemon=True).start()
