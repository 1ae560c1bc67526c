"""A profiler's trace that is kept, for a person to open in Perfetto (ui.perfetto.dev)."""

import gzip
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from netpipe.errors import InputError
from netpipe.measuring.profiler_trace import DEVICE, DISPATCH, LOADING, NoTraceError, record_trace
from netpipe.whole_file import write_whole

_NOT_IN_A_NAME: Final = re.compile(r"[^A-Za-z0-9.+-]+")
_LONGEST_NAME: Final = 120
# The profiler calls every thread of Python's "python". What is marked on one tells what it is.
_THREADS: Final = {
    LOADING: "loading, ahead of the training loop",
    DISPATCH: "training loop",
    DEVICE: "device, by the completion of steps",
}


@dataclass(frozen=True)
class TraceTarget:
    """Where a trace is to be kept.

    Attributes:
        folder: Its folder.
        name: What it is of, for its name beside the device's; "" where there is nothing to say.
    """

    folder: Path
    name: str = ""

    def file(self, device_key: str) -> Path:
        """Return the file for what was measured on a device."""
        words = _NOT_IN_A_NAME.sub("-", self.name).strip("-.")[-_LONGEST_NAME:]
        parts = (one for one in (device_key, words) if one)
        return self.folder / f"{'_'.join(parts)}.trace.json.gz"


def keep_trace(run: Callable[[], object], file: Path) -> None:
    """Have the profiler watch what a function does, and keep what it saw.

    Args:
        run: A block of real steps; never one whose times count.
        file: The file to write, gzipped JSON in Chrome's trace event format, which Perfetto reads.

    Raises:
        NoTraceError: There is none; no file was written.
        Exception: What `run` raises.
    """
    # Perfetto reads no trace with the metadata that the profiler adds, and only JSON tells of
    # each event on which thread it was.
    with record_trace(run, "*.trace.json.gz") as found:
        try:
            events = json.loads(gzip.decompress(found.read_bytes()))["traceEvents"]
        except (OSError, EOFError, ValueError, KeyError) as error:
            raise NoTraceError(f"what the profiler wrote cannot be read: {error}") from error
    content = json.dumps({"displayTimeUnit": "ms", "traceEvents": name_threads(events)})
    try:
        write_whole(file, gzip.compress(content.encode("utf-8")), "--trace")
    except InputError as error:
        raise NoTraceError(str(error)) from error


def name_threads(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a trace's events, the threads that hold marked ones called by what they are.

    Args:
        events: In Chrome's trace event format; a thread's name is an event of its own.
    """
    marked = {
        (event["pid"], event["tid"]): _THREADS[name]
        for name in _THREADS
        for event in events
        if event.get("name") == name
    }
    return [_named(event, marked) for event in events if event]


def _named(event: dict[str, Any], names: Mapping[tuple[int, int], str]) -> dict[str, Any]:
    name = names.get((event.get("pid", -1), event.get("tid", -1)))
    if event.get("name") != "thread_name" or name is None:
        return event
    return {**event, "args": {"name": name}}
