"""Profiler traces that are kept, and the harness's marks in them.

Tracing slows a block down, so a traced block is never timed.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final

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

_MAX_NAME_LENGTH: Final = 120
_TRACE_NAME: Final = "perfetto_trace.json.gz"

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
        NoTraceError: Tracing failed; no file was written. If it did not start, the function was not
            run.
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
            jax.profiler.start_trace(
                str(folder), create_perfetto_trace=True, profiler_options=options
            )
        try:
            run()
        except BaseException:
            with suppress(Exception):
                jax.profiler.stop_trace()
            raise
        with _explain_failure("ended"):
            jax.profiler.stop_trace()
            found = next(folder.rglob(_TRACE_NAME), folder / _TRACE_NAME)
            content = found.read_bytes()
    try:
        write_whole(file, content, "--trace")
    except InputError as error:
        raise NoTraceError(str(error)) from error


@contextmanager
def _explain_failure(action: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        raise NoTraceError(f"the profiler cannot be {action}: {first_line(error)}") from error
