"""Profiler traces: the harness's marks, traces to keep, and the overlap that a trace shows.

Tracing slows a block down, so a traced block is never timed.
"""

import gzip
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from itertools import chain
from math import inf
from pathlib import Path
from typing import Any, Final

import jax

from netpipe.errors import HarnessError, InputError
from netpipe.files.temporary_folders import temporary_folder
from netpipe.files.whole_file import write_whole

Span = tuple[float, float]
"""Start and end in nanoseconds."""

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

# GPU planes have a line for each CUDA stream, "Stream #7(Compute,MemcpyH2D)"; TPU planes have one
# for operations. Other lines, such as "Steps", are derived from these and include idle time.
_WORK_LINES = ("Stream #", "XLA Ops")
_COPIES = ("MemcpyH2D", "MemcpyD2H")
# XLA's CPU client has no plane: its operations carry this statistic, on any thread.
_OPERATION = "hlo_op"

# The profiler names every Python thread "python", so threads are named after their marks.
THREADS: Final = {
    LOADING: "loading, ahead of the training loop",
    DISPATCH: "training loop",
    DEVICE: "device, by the completion of steps",
}
_MAX_NAME_LENGTH: Final = 120

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
    # Perfetto rejects the metadata that the profiler adds. Only the JSON file has thread names.
    with record_trace(run, "*.trace.json.gz") as found:
        try:
            events = json.loads(gzip.decompress(found.read_bytes()))["traceEvents"]
        except (OSError, EOFError, ValueError, KeyError) as error:
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


def load_overlap_fraction(run: Callable[[], object]) -> float | None:
    """Return the time that loading and device work share, divided by the shorter of the two.

    0: the loop loads and computes alternately; 1: one is hidden behind the other; None: the trace
    failed, or shows no loading or no device work. `run` loads inside `mark(LOADING)` and returns
    when the device is done. Never call this inside a timed window.
    """
    with suppress(NoTraceError), record_trace(run, "*.xplane.pb") as trace:
        try:
            profile = jax.profiler.ProfileData.from_file(str(trace))
        except Exception:  # noqa: BLE001  # a damaged file raises anything
            return None
        return overlap_fraction(*load_and_busy_spans(profile))
    return None


@contextmanager
def record_trace(run: Callable[[], object], wanted: str) -> Iterator[Path]:
    """Run a function under the profiler and yield the trace's file that matches `wanted`.

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
        found = list(folder.rglob(wanted))
        if len(found) != 1:
            raise NoTraceError(f"the profiler wrote {len(found)} files {wanted}")
        yield found[0]


@contextmanager
def _explain_failure(action: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise NoTraceError(f"the profiler cannot be {action}: {reason}") from error


def load_and_busy_spans(trace: jax.profiler.ProfileData) -> tuple[list[Span], list[Span]]:
    """Return the spans of a trace in which the host loaded, and those in which the device worked.

    The device is the accelerator whose plane shows work, else XLA's CPU client.
    """
    loads, on_host, on_device = list[Span](), list[Span](), list[Span]()
    for plane in trace.planes:
        if plane.name.startswith("/device:"):
            work = (line for line in plane.lines if line.name.startswith(_WORK_LINES))
            events = chain.from_iterable(line.events for line in work)
            on_device += [_span(event) for event in events if not event.name.startswith(_COPIES)]
            continue
        for event in chain.from_iterable(line.events for line in plane.lines):
            if event.name == LOADING:
                loads.append(_span(event))
            elif any(name == _OPERATION for name, _ in event.stats):
                on_host.append(_span(event))
    return loads, on_device or on_host


def _span(event: Any) -> Span:
    return event.start_ns, event.start_ns + event.duration_ns


def overlap_fraction(loads: Sequence[Span], busy: Sequence[Span]) -> float | None:
    """Return |loads and busy| / min(|loads|, |busy|), or None if one of them takes no time."""
    loads_ns, busy_ns = covered_ns(loads), covered_ns(busy)
    shorter_ns = min(loads_ns, busy_ns)
    shared_ns = loads_ns + busy_ns - covered_ns(chain(loads, busy))
    return max(0.0, shared_ns) / shorter_ns if shorter_ns > 0 else None


def covered_ns(spans: Iterable[Span]) -> float:
    """Return the nanoseconds that `spans` cover; overlaps count once."""
    total_ns = 0.0
    covered_until = -inf
    for start, end in sorted(spans):
        total_ns += max(0.0, end - max(start, covered_until))
        covered_until = max(covered_until, end)
    return total_ns
