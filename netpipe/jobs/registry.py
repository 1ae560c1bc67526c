"""The child's side of a session: run its job and write one result, whatever happens."""

import argparse
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from multiprocessing.connection import Connection
from typing import Any, TypeVar

from netpipe.clock import MonotonicClock
from netpipe.errors import LoaderFailedError, NetpipeError
from netpipe.jobs.cleanup import (
    end_this_session,
    end_with_followers,
    is_abandoned,
    keep_sockets_in_session_folder,
)
from netpipe.jobs.failure import format_failure
from netpipe.jobs.heartbeat import Watch
from netpipe.jobs.progress import ProgressWriter
from netpipe.jobs.request import SessionRequest
from netpipe.jobs.result_files import error_document, progress_file, write_result

_POLL_S = 0.2
_ORDER_POLL_S = 1.0

_Request = TypeVar("_Request", bound=SessionRequest)


def require_request(parser: argparse.ArgumentParser, request_type: type[_Request]) -> _Request:
    """Return the request that netpipe passed to this process; exit if there is none."""
    try:
        request = request_type.from_environment()
    except NetpipeError as error:
        parser.error(str(error))
    if request is None:
        parser.error("this module is started by netpipe, not by hand")
    return request


def run_job(request: SessionRequest, job: Callable[[ExitStack], dict[str, Any]]) -> None:
    """Write what a job returns, or how it failed, as the result of the session.

    The job returns a document with one key, that of the result. Callbacks that it pushes onto the
    exit stack, such as closing a loader, run after the result is written: they may never return.
    """
    keep_sockets_in_session_folder(request)
    if request.parent is not None:
        end_with_followers(request)
        threading.Thread(
            target=_end_when_abandoned, args=[request], name="netpipe-parent-watch", daemon=True
        ).start()
    with ExitStack() as closing:
        try:
            write_result(request, job(closing))
        except BaseException as error:  # noqa: BLE001  # an exception in the user's code is a result
            if isinstance(error, NetpipeError) and not isinstance(error, LoaderFailedError):
                document = error_document("misuse", str(error))
            else:
                document = error_document("failed", format_failure(error))
            write_result(request, document)


def announce_import(request: SessionRequest, target: str) -> None:
    """Report as progress that a target is being imported, which can take long and can fail."""
    ProgressWriter(progress_file(request), MonotonicClock()).enter_phase(f"importing {target}")


def _end_when_abandoned(request: SessionRequest) -> None:
    """End this session when its parent is gone: nobody reads the result any more."""
    while not is_abandoned(request):
        time.sleep(_POLL_S)
    end_this_session(request)


def open_channel(request: SessionRequest) -> Connection:
    """Open the connection to the parent; the workers of a loader do not inherit it."""
    os.set_inheritable(request.channel, False)
    return Connection(request.channel)


def read_orders(channel: Connection, watch: Watch) -> Iterator[Any]:
    """Yield what the parent asks for, until it is gone."""
    while True:
        watch.begin_rounds()
        # The other side may take minutes to start.
        if channel.poll(_ORDER_POLL_S):
            try:
                yield channel.recv()
            except EOFError:
                return
