"""Profiler traces that are kept, and the harness's marks in them.

Tracing slows a block down, so a traced block is never timed.
"""

import gzip
import json
import re
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import jax

from netpipe.errors import HarnessError, InputError, first_line
from netpipe.files.temporary_folders import temporary_folder
from netpipe.files.whole_file import write_whole

# A real step, numbered, from the request for its batch to the next request.
STEP = "netpipe.step"
# The two parts of a step: the wait for its batch, then the work of the loop.
LOADING = "netpipe.loading"
LOOP = "netpipe.loop"
# The call of the step within the loop's work; it returns before the device is done.
DISPATCH = "netpipe.dispatch"
# Before the steps: buffered batches are pulled and thrown away.
DRAIN = "netpipe.drain"
# On a separate thread: a step on the device, from the end of the previous step to its own end.
DEVICE = "netpipe.device"

# The profiler names every Python thread "python", so threads are named after their marks.
THREADS: Final = {
    LOADING: "loading, ahead of the training loop",
    DISPATCH: "training loop",
    DEVICE: "device, by the completion of steps",
}
_MAX_NAME_LENGTH: Final = 120
_TRACE_GLOB: Final = "*.trace.json.gz"

mark = jax.profiler.TraceAnnotation
"""Marks the `with` block in a trace; costs next to nothing without a running trace."""

mark_step = jax.profiler.StepTraceAnnotation
"""Marks the `with` block as a step, by which TensorBoard groups the other marks."""


class NoTraceError(HarnessError):
    """The profiler cannot trace: it is forbidden, in use, or out of disk space."""


def trace_file(folder: Path, name: str, device_key: str) -> Path:
    """Return the path of the trace of `name`, which may be "", on a device."""
    words = re.sub(r"[^A-Za-z0-9.+-]+", "-", name).strip("-.")[-_MAX_NAME_LENGTH:]
    return folder / f"{'_'.join(filter(None, (device_key, words)))}.trace.json.gz"


def keep_trace(run: Callable[[], object], file: Path) -> None:
    """Run a function under the profiler and keep the trace for Perfetto.

    The file is gzipped JSON in Chrome's trace event format.

    Raises:
        NoTraceError: Tracing failed; no file was written.
    """
    # Perfetto rejects the metadata that the profiler adds.
    with _record_trace(run) as found:
        try:
            events = json.loads(gzip.decompress(found.read_bytes()))["traceEvents"]
        except (OSError, EOFError, ValueError, KeyError, zlib.error) as error:
            raise NoTraceError(f"the file that the profiler wrote is damaged: {error}") from error
    content = json.dumps({"displayTimeUnit": "ms", "traceEvents": name_threads(events)})
    try:
        write_whole(file, gzip.compress(content.encode("utf-8")), "--trace")
    except InputError as error:
        raise NoTraceError(str(error)) from error


def name_threads(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the events of a trace, with threads named after the marks in them."""
    names = {
        (event["pid"], event["tid"]): thread
        for marked, thread in THREADS.items()
        for event in events
        if event.get("name") == marked
    }
    renamed = []
    for event in filter(None, events):
        name = names.get((event.get("pid", -1), event.get("tid", -1)))
        is_renamed = event.get("name") == "thread_name" and name is not None
        renamed.append({**event, "args": {"name": name}} if is_renamed else event)
    return renamed


@contextmanager
def _record_trace(run: Callable[[], object]) -> Iterator[Path]:
    """Run a function under the profiler and yield the trace's JSON file.

    Raises:
        NoTraceError: Tracing failed. If it did not start, the function was not run.
    """
    with ExitStack() as stack:
        try:
            folder = stack.enter_context(temporary_folder("trace"))
        except OSError as error:
            raise NoTraceError(f"there is no room for it: {error}") from error
        with _explain_failure("started"):
            options = jax.profiler.ProfileOptions()
            # Recording every Python call would take most of the time.
            options.python_tracer_level = 0
            # Level 1 records annotations and the CPU client's operations.
            options.host_tracer_level = 1
            options.enable_hlo_proto = False
            jax.profiler.start_trace(str(folder), profiler_options=options)
        try:
            run()
        except BaseException:
            with suppress(Exception):
                jax.profiler.stop_trace()
            raise
        with _explain_failure("ended"):
            jax.profiler.stop_trace()
        # Only the JSON file has the names of threads.
        found = list(folder.rglob(_TRACE_GLOB))
        if len(found) != 1:
            raise NoTraceError(f"the profiler wrote {len(found)} files {_TRACE_GLOB}")
        yield found[0]


@contextmanager
def _explain_failure(action: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        raise NoTraceError(f"the profiler cannot be {action}: {first_line(error)}") from error
