"""The profiler: what the harness marks in its traces, and the second opinion that one gives.

That is how much of the loading was hidden behind the device's work. A trace slows what it watches,
so its block is no block to time.
"""

import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import chain
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
"""Within a step: the request for its batch, until it is there."""

LOOP = "netpipe.loop"
"""Within a step: what the loop does with the batch, until it asks for the next."""

DISPATCH = "netpipe.dispatch"
"""Within what the loop does: the call of the step, which returns before the device is done."""

DRAIN = "netpipe.drain"
"""Before the steps: what the loader's buffers would have lent is pulled and thrown away."""

DEVICE = "netpipe.device"
"""On a thread of its own: a step on the device, from the end of the one before to its own end."""

_FOLDER = "netpipe-trace-{}-"  # with the process's id: what it leaves when killed is known by it

# GPU planes have a line for each CUDA stream, "Stream #7(Compute,MemcpyH2D)"; TPU planes have one
# of operations. Their other lines, as "Steps", are derived from these and span idle time too.
_WORK_LINES = ("Stream #", "XLA Ops")
_COPIES = ("MemcpyH2D", "MemcpyD2H")  # feeding the device, not computing
# XLA's CPU client has no plane of its own: its operations carry this on whatever thread they run,
# its pool's or the caller's.
_OPERATION = "hlo_op"


class NoTraceError(HarnessError):
    """The profiler gives no trace: it is forbidden, in use, or has no room."""


def mark(name: str) -> jax.profiler.TraceAnnotation:
    """Mark what the `with` block does; next to free when nobody traces."""
    return jax.profiler.TraceAnnotation(name)


def mark_step(name: str, number: int) -> jax.profiler.TraceAnnotation:
    """Mark what the `with` block does as a step, by which TensorBoard groups the rest."""
    return jax.profiler.StepTraceAnnotation(name, step_num=number)


def loading() -> jax.profiler.TraceAnnotation:
    """Mark what the `with` block does as loading."""
    return mark(LOADING)


def load_overlap_fraction(run: Callable[[], object]) -> float | None:
    """Return the shared time of loading and device work over the shorter of the two.

    0: the loop loads and computes in turns; 1: one is hidden behind the other. Never call it
    inside a timed window.

    Args:
        run: A block of real steps that loads inside `loading()` and returns when the device is
            done; some 20 steps are enough. Not called when the profiler cannot be started.

    Returns:
        The fraction, or None when no trace can be had, or loading or device work is not in it.

    Raises:
        Exception: What `run` raises.
    """
    with suppress(NoTraceError), record_trace(run, "*.xplane.pb") as trace:
        try:
            profile = jax.profiler.ProfileData.from_file(str(trace))
        except Exception:  # noqa: BLE001  # what is damaged is no opinion
            return None
        return overlap_fraction(*load_and_busy_spans(profile))
    return None


@contextmanager
def record_trace(run: Callable[[], object], wanted: str) -> Iterator[Path]:
    """Have the profiler watch what a function does.

    Args:
        run: What to watch. Not called when the profiler cannot be started.
        wanted: The name's pattern of the one of the profiler's files that is asked for.

    Yields:
        That file, which goes with the `with` block.

    Raises:
        NoTraceError: There is none.
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
        jax.profiler.start_trace(folder, profiler_options=_lean_options())
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


def _lean_options() -> jax.profiler.ProfileOptions:
    options = jax.profiler.ProfileOptions()
    options.python_tracer_level = 0  # a record of every Python call would be most of the time
    options.host_tracer_level = 1  # annotations, and the CPU client's operations
    options.enable_hlo_proto = False
    return options


def load_and_busy_spans(trace: jax.profiler.ProfileData) -> tuple[list[Span], list[Span]]:
    """Return when a trace's host loaded, and when its device worked.

    The device is the accelerator whose plane shows work; without one it is XLA's CPU client.
    """
    loads: list[Span] = []
    on_host: list[Span] = []
    on_device: list[Span] = []
    for plane in trace.planes:
        if plane.name.startswith("/device:"):
            on_device += map(_span, _work(plane))
            continue
        for event in chain.from_iterable(line.events for line in plane.lines):
            if event.name == LOADING:
                loads.append(_span(event))
            elif any(name == _OPERATION for name, _ in event.stats):
                on_host.append(_span(event))
    return loads, on_device or on_host


def _work(plane: Any) -> Iterator[Any]:
    for line in plane.lines:
        if line.name.startswith(_WORK_LINES):
            yield from (event for event in line.events if not event.name.startswith(_COPIES))


def _span(event: Any) -> Span:
    return event.start_ns, event.start_ns + event.duration_ns


def overlap_fraction(loads: Iterable[Span], busy: Iterable[Span]) -> float | None:
    """Return |loads and busy| / min(|loads|, |busy|), or None when one of them takes no time."""
    loads, busy = union(loads), union(busy)
    shorter_ns = min(_total_ns(loads), _total_ns(busy))
    return _total_ns(intersection(loads, busy)) / shorter_ns if shorter_ns > 0 else None


def union(spans: Iterable[Span]) -> list[Span]:
    """Return the time that any of `spans` covers, as spans in order that do not touch."""
    merged: list[Span] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((start, end))
    return merged


def intersection(ours: list[Span], theirs: list[Span]) -> list[Span]:
    """Return the time that both cover; each is in order and without overlaps, as `union` gives."""
    shared: list[Span] = []
    mine = other = 0
    while mine < len(ours) and other < len(theirs):
        start = max(ours[mine][0], theirs[other][0])
        end = min(ours[mine][1], theirs[other][1])
        if start < end:
            shared.append((start, end))
        if ours[mine][1] <= theirs[other][1]:
            mine += 1
        else:
            other += 1
    return shared


def _total_ns(spans: Iterable[Span]) -> float:
    return sum(end - start for start, end in spans)
