"""The profiler: the harness's marks in its traces, and the overlap that a trace shows.

The overlap says how much of loading is hidden behind the device's work. Tracing slows down what it
watches, so a traced block is never timed.
"""

import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import chain
from math import inf
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import jax

from netpipe.errors import HarnessError

Span = tuple[float, float]
"""Start and end in nanoseconds."""

STEP = "netpipe.step"
"""A real step as its loop sees it: from the request for its batch to the next one's, numbered."""

LOADING = "netpipe.loading"
"""Within a step: the wait for its batch."""

LOOP = "netpipe.loop"
"""Within a step: what the loop does with the batch, until it asks for the next."""

DISPATCH = "netpipe.dispatch"
"""Within what the loop does: the call of the step, which returns before the device is done."""

DRAIN = "netpipe.drain"
"""Before the steps: buffered batches are pulled and thrown away."""

DEVICE = "netpipe.device"
"""On a thread of its own: a step on the device, from the previous step's end to its own."""

# Contains the process id, by which the folder of a killed process is recognised.
_FOLDER = "netpipe-trace-{}-"

# GPU planes have a line for each CUDA stream, "Stream #7(Compute,MemcpyH2D)"; TPU planes have one
# of operations. Their other lines, as "Steps", are derived from these and span idle time too.
_WORK_LINES = ("Stream #", "XLA Ops")
# Copies feed the device, they do not compute.
_COPIES = ("MemcpyH2D", "MemcpyD2H")
# XLA's CPU client has no plane of its own: its operations carry this statistic on any thread.
_OPERATION = "hlo_op"


class NoTraceError(HarnessError):
    """The profiler gives no trace: it is forbidden, in use, or has no room."""


def mark(name: str) -> jax.profiler.TraceAnnotation:
    """Mark the `with` block in a trace; costs next to nothing when nobody traces."""
    return jax.profiler.TraceAnnotation(name)


def mark_step(name: str, number: int) -> jax.profiler.TraceAnnotation:
    """Mark the `with` block as a step, by which TensorBoard groups the other marks."""
    return jax.profiler.StepTraceAnnotation(name, step_num=number)


def load_overlap_fraction(run: Callable[[], object]) -> float | None:
    """Return the shared time of loading and device work over the shorter of the two.

    0: the loop loads and computes in turns; 1: one is hidden behind the other. Never call it
    inside a timed window.

    Args:
        run: A block of real steps that loads inside `mark(LOADING)` and returns when the device is
            done; some 20 steps are enough. Not called when the profiler cannot be started.

    Returns:
        The fraction; None without a trace, or when it shows no loading or no device work.

    Raises:
        Exception: What `run` raises.
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
    """Run a function under the profiler.

    Args:
        run: Not called when the profiler cannot be started.
        wanted: Pattern of the name of the profiler's file to yield.

    Yields:
        The file, which is removed after the `with` block.

    Raises:
        NoTraceError: There is no trace.
        Exception: What `run` raises.
    """
    try:
        folder = Path(mkdtemp(prefix=_FOLDER.format(os.getpid())))
    except OSError as error:
        raise NoTraceError(f"there is no room for it: {error}") from error
    try:
        _trace(run, folder)
        found = list(folder.rglob(wanted))
        if len(found) != 1:
            raise NoTraceError(f"the profiler wrote {len(found)} files {wanted}")
        yield found[0]
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _trace(run: Callable[[], object], folder: Path) -> None:
    try:
        options = jax.profiler.ProfileOptions()
        # Recording every Python call would take most of the time.
        options.python_tracer_level = 0
        # Annotations, and the CPU client's operations.
        options.host_tracer_level = 1
        options.enable_hlo_proto = False
        jax.profiler.start_trace(folder, profiler_options=options)
    except Exception as error:
        raise NoTraceError(f"the profiler cannot be started: {_first_line(error)}") from error
    try:
        run()
    except BaseException:
        with suppress(Exception):
            jax.profiler.stop_trace()
        raise
    try:
        jax.profiler.stop_trace()
    except Exception as error:
        raise NoTraceError(f"the profiler cannot be ended: {_first_line(error)}") from error


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0] or type(error).__name__


def load_and_busy_spans(trace: jax.profiler.ProfileData) -> tuple[list[Span], list[Span]]:
    """Return when a trace's host loaded, and when its device worked.

    The device is the accelerator whose plane shows work; without one it is XLA's CPU client.
    """
    loads: list[Span] = []
    on_host: list[Span] = []
    on_device: list[Span] = []
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


def overlap_fraction(loads: Iterable[Span], busy: Iterable[Span]) -> float | None:
    """Return |loads and busy| / min(|loads|, |busy|), or None when one of them takes no time."""
    loads, busy = list(loads), list(busy)
    loads_ns, busy_ns = covered_ns(loads), covered_ns(busy)
    shorter_ns = min(loads_ns, busy_ns)
    if shorter_ns <= 0:
        return None
    shared_ns = loads_ns + busy_ns - covered_ns(loads + busy)
    return max(0.0, shared_ns) / shorter_ns


def covered_ns(spans: Iterable[Span]) -> float:
    """Return the nanoseconds that any of `spans` covers."""
    total_ns = 0.0
    covered_until = -inf
    for start, end in sorted(spans):
        total_ns += max(0.0, end - max(start, covered_until))
        covered_until = max(covered_until, end)
    return total_ns
