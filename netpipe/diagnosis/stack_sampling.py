"""The stacks of all threads of a loader that is not Grain's, sampled while it is pulled."""

import os
import sys
import sysconfig
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Final

from netpipe.session.processes import thread_cpu_s

_INTERVAL_S: Final = 0.002
_SWITCH_S: Final = 5e-5
_HARNESS: Final = str(Path(__file__).parent.parent) + os.sep
_PYTHON: Final = sysconfig.get_paths()["stdlib"] + os.sep
_SITE: Final = ("site-packages", "dist-packages")
# A thread whose innermost code is here waits for another one.
_WAITING: Final = tuple(
    _PYTHON + file for file in ("threading.py", "queue.py", "selectors.py", "concurrent")
)


@dataclass(frozen=True)
class Function:
    """A function of the user's; its line is where it begins, from 1."""

    name: str
    file: str
    line: int


UsersPath = tuple[Function, ...]
"""From the outermost function to the innermost."""


@dataclass
class Samples:
    """How long each path was seen.

    Attributes:
        wall_s: Wall seconds.
        cpu_s: CPU seconds of its thread meanwhile.
    """

    wall_s: dict[UsersPath, float] = field(default_factory=lambda: defaultdict(float))
    cpu_s: dict[UsersPath, float] = field(default_factory=lambda: defaultdict(float))


@contextmanager
def sampled() -> Iterator[Samples]:
    """Sample all threads but those of the harness and those that wait for another thread."""
    samples, is_over = Samples(), threading.Event()
    sampler = threading.Thread(target=_sample, args=(samples, is_over), name="netpipe-stacks")
    # Otherwise a computing thread would only be seen where it releases Python's lock.
    switch_s = sys.getswitchinterval()
    sys.setswitchinterval(_SWITCH_S)
    sampler.start()
    try:
        yield samples
    finally:
        is_over.set()
        sampler.join()
        sys.setswitchinterval(switch_s)


def _sample(samples: Samples, is_over: threading.Event) -> None:
    now_s, used_s = time.monotonic(), dict[int, float]()
    while not is_over.wait(_INTERVAL_S):
        before_s, now_s = now_s, time.monotonic()
        native = {thread.ident: thread.native_id for thread in threading.enumerate()}
        for ident, frame in sys._current_frames().items():  # noqa: SLF001  # the documented way
            thread = native.get(ident)
            if thread is None or ident == threading.get_ident():
                continue
            cpu_before_s = used_s.get(ident)
            used_s[ident] = thread_cpu_s(thread)
            path = users_path(frame)
            if path and cpu_before_s is not None:
                samples.wall_s[path] += now_s - before_s
                samples.cpu_s[path] += used_s[ident] - cpu_before_s


def users_path(frame: FrameType | None) -> UsersPath:
    """Return the user's functions on a stack, or a library's if none is the user's own.

    The path of a thread that waits for another one is empty.
    """
    if frame is None or frame.f_code.co_filename.startswith(_WAITING):
        return ()
    own: list[Function] = []
    library: list[Function] = []
    while frame is not None:
        code, file = frame.f_code, frame.f_code.co_filename
        function = Function(code.co_qualname, file, code.co_firstlineno)
        if any(folder in file for folder in _SITE) and not file.startswith((_HARNESS, "<")):
            library.append(function)
        elif not file.startswith((_HARNESS, "<", _PYTHON)):
            own.append(function)
        frame = frame.f_back
    return tuple(reversed(own or library))


def function_names(path: UsersPath) -> tuple[str, ...]:
    """Return the names of a path's functions."""
    return tuple(function.name for function in path)
