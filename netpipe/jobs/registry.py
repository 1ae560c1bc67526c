"""The registry of jobs, and the code that runs one of them in a session's process."""

import gc
import json
import os
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import fields
from pkgutil import resolve_name
from typing import Any, Final, NamedTuple

from netpipe.clock import Clock
from netpipe.errors import InputError, LoaderFailedError, NetpipeError
from netpipe.files.text_files import quote
from netpipe.jobs.cleanup import (
    end_this_session,
    end_with_followers,
    is_abandoned,
    keep_sockets_in_session_folder,
)
from netpipe.jobs.code_origin import check_origin
from netpipe.jobs.failure import format_failure
from netpipe.jobs.progress import ProgressWriter
from netpipe.jobs.request import (
    REQUEST_VARIABLE,
    SessionRequest,
    error_document,
    progress_file,
    write_result,
)
from netpipe.jobs.targets import Factories, Target, resolve

_POLL_S: Final = 0.2


class Job(NamedTuple):
    """A kind of session: the names of its request's type and of the function that runs it.

    The function gets the request, the factories, and an exit stack for callbacks that may never
    return, such as closing a loader: they run after the result is written. The function returns a
    document whose only key holds the result.
    """

    request_type: str
    function: str


# Names, because the packages of the jobs are in layers above this one, and because a process
# imports only its own job, after the user's code.
JOBS: Final = {
    "measure": Job(
        "netpipe.measuring.measure_request:MeasureRequest",
        "netpipe.measuring.measure_job:measure_factories",
    ),
    "duet": Job("netpipe.duets.duet_request:DuetRequest", "netpipe.duets.duet_job:serve_blocks"),
    "lint": Job("netpipe.linting.lint_request:LintRequest", "netpipe.linting.lint_job:lint_loader"),
    "work": Job(
        "netpipe.work_counts.reproducible_counts:WorkRequest",
        "netpipe.work_counts.work_job:count_factories",
    ),
    "read": Job("netpipe.judge.reading:ReadRequest", "netpipe.judge.reading_job:read_loader"),
    "resume": Job(
        "netpipe.resuming.checking:ResumeRequest", "netpipe.resuming.resume_job:run_loader"
    ),
    "diagnose": Job(
        "netpipe.diagnosis.diagnose_request:InvestigationRequest",
        "netpipe.diagnosis.diagnose_job:investigate",
    ),
    "throughput": Job(
        "netpipe.throughput.throughput_request:ThroughputRequest",
        "netpipe.throughput.throughput_job:measure_throughput",
    ),
}
_LET_GRAIN_START_WORKERS: Final = "netpipe.grain_access.worker_start:let_grain_start_workers"
_PLACE_IN_STORAGE: Final = "netpipe.storage.stand_in:place"


def read_request() -> SessionRequest | None:
    """Return this process's request; None if the process is not a session.

    Another version of netpipe may have sent the request, so unknown values are ignored.

    Raises:
        InputError: The variable does not hold a request, because somebody set it by hand.
    """
    text = os.environ.get(REQUEST_VARIABLE)
    if not text:
        return None
    try:
        values = json.loads(text)
        request_type = resolve_name(JOBS[values["kind"]].request_type)
        known = {field.name for field in fields(request_type)} & values.keys() | {"result"}
        request: SessionRequest = request_type(**{name: values[name] for name in known})
    except (ValueError, TypeError, AttributeError, KeyError, RecursionError, NetpipeError) as error:
        raise InputError(
            REQUEST_VARIABLE, "the variable", "be set by netpipe for its own processes only",
            quote(text), "Unset it",
        ) from error  # fmt: skip
    return request


def make_factory(target: Target) -> Callable[..., Any]:
    """Return a target's factory, placed in the target's storage if any; errors as in `resolve`."""
    factory = resolve(target)
    if target.storage:
        factory = resolve_name(_PLACE_IN_STORAGE)(factory, target.storage)
    return factory


def import_factories(request: SessionRequest) -> Factories:
    """Import the targets of a request, which can be slow and can fail; return their factories."""
    started_s = time.monotonic()
    made: dict[str, Any] = {role: make_factory(named) for role, named in request.targets.items()}
    return Factories(**made, import_s=time.monotonic() - started_s)


def run_job(request: SessionRequest, make_factories: Callable[[], Factories]) -> None:
    """Run the job of a request, and write its document, or its failure, as the session's result."""
    keep_sockets_in_session_folder(request)
    if request.parent is not None:
        end_with_followers(request)
        threading.Thread(
            target=_end_when_abandoned, args=[request], name="netpipe-parent-watch", daemon=True
        ).start()
    progress = ProgressWriter(progress_file(request), Clock())
    progress.enter_phase(f"importing {request.targets.get('loader', 'the loader')}")
    with ExitStack() as closing:
        try:
            write_result(request, _run(request, make_factories(), closing))
        except BaseException as error:  # noqa: BLE001  # an exception in the user's code is a result
            if isinstance(error, NetpipeError) and not isinstance(error, LoaderFailedError):
                document = error_document("misuse", str(error))
            else:
                document = error_document("failed", format_failure(error))
            write_result(request, document)
        progress.enter_phase("ending the process")
    # At exit, the interpreter would look for garbage among the objects of jax for 0.4 s.
    gc.freeze()


def _run(request: SessionRequest, factories: Factories, closing: ExitStack) -> dict[str, Any]:
    # A refusal must not take minutes, so the first check comes before the job. The second one also
    # covers the modules that the job has imported.
    check_origin(request.code_from, request.not_from)
    # Imported after the user's code, which may configure the libraries that the job imports.
    if request.kind != "lint":  # it looks at the flags first
        resolve_name(_LET_GRAIN_START_WORKERS)()
    document: dict[str, Any] = resolve_name(JOBS[request.kind].function)(
        request, factories, closing
    )
    check_origin(request.code_from, request.not_from)
    return document


def _end_when_abandoned(request: SessionRequest) -> None:
    """End this session once its parent is gone, because nobody will read the result."""
    while not is_abandoned(request):
        time.sleep(_POLL_S)
    end_this_session(request)
