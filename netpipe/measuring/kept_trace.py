"""A profiler's trace that is kept, for a person to open in Perfetto (ui.perfetto.dev)."""

import gzip
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from netpipe.errors import InputError
from netpipe.measuring.profiler_trace import DEVICE, DISPATCH, LOADING, NoTraceError, record_trace
from netpipe.whole_file import write_whole

_NOT_IN_A_NAME: Final = re.compile(r"[^A-Za-z0-9.+-]+")
_MAX_NAME_LENGTH: Final = 120
# The profiler names every Python thread "python"; the marks on a thread tell which it is.
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
        name: What was measured, for the file's name after the device's key; may be "".
    """

    folder: Path
    name: str = ""

    def file(self, device_key: str) -> Path:
        """Return the file for a measurement on a device."""
        words = _NOT_IN_A_NAME.sub("-", self.name).strip("-.")[-_MAX_NAME_LENGTH:]
        return self.folder / f"{'_'.join(filter(None, (device_key, words)))}.trace.json.gz"


def keep_trace(run: Callable[[], object], file: Path) -> None:
    """Run a function under the profiler and keep the trace.

    Args:
        run: A block of real steps; never one whose times count.
        file: The file to write, gzipped JSON in Chrome's trace event format, which Perfetto reads.

    Raises:
        NoTraceError: There is no trace; no file was written.
        Exception: What `run` raises.
    """
    # Perfetto rejects the metadata that the profiler adds, and only the JSON file names the thread
    # of each event.
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
    """Return a trace's events in which the threads that hold marks are named after them.

    Args:
        events: In Chrome's trace event format; a thread's name is an event of its own.
    """
    names = {
        (event["pid"], event["tid"]): thread
        for mark, thread in _THREADS.items()
        for event in events
        if event.get("name") == mark
    }

    def rename(event: dict[str, Any]) -> dict[str, Any]:
        name = names.get((event.get("pid", -1), event.get("tid", -1)))
        is_renamed = event.get("name") == "thread_name" and name is not None
        return {**event, "args": {"name": name}} if is_renamed else event

    return [rename(event) for event in events if event]
