"""Where the time of a loader goes that is not Grain's: the stacks of its threads, sampled."""

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

from netpipe.session.descendants import thread_cpu_s

_LOOK_S: Final = 0.002
_SWITCH_S: Final = 5e-5
_HARNESS: Final = str(Path(__file__).parent.parent) + os.sep
_PYTHON: Final = sysconfig.get_paths()["stdlib"] + os.sep
_SITE: Final = ("site-packages", "dist-packages")
# A thread whose innermost code is here waits for another one.
_WAITS: Final = tuple(
    _PYTHON + file for file in ("threading.py", "queue.py", "selectors.py", "concurrent")
)


@dataclass(frozen=True)
class Place:
    """A function of the user's.

    Attributes:
        function: Its qualified name.
        file: As Python names it.
        line: Where it begins, from 1.
    """

    function: str
    file: str
    line: int


UsersPath = tuple[Place, ...]
"""From the outermost function to the innermost."""


@dataclass
class Sampled:
    """How long each path was seen, and how much of it the thread computed.

    Attributes:
        wall_s: By the path.
        cpu_s: By the path.
    """

    wall_s: dict[UsersPath, float] = field(default_factory=lambda: defaultdict(float))
    cpu_s: dict[UsersPath, float] = field(default_factory=lambda: defaultdict(float))


@contextmanager
def sampled() -> Iterator[Sampled]:
    """Look at all threads but this one's, those of the harness and those that wait for others."""
    seen, over = Sampled(), threading.Event()
    looking = threading.Thread(target=_look, args=(seen, over), name="netpipe-stacks")
    # Or a thread that computes would be seen where it gives Python's lock away, and nowhere else.
    switch_s = sys.getswitchinterval()
    sys.setswitchinterval(_SWITCH_S)
    looking.start()
    try:
        yield seen
    finally:
        over.set()
        looking.join()
        sys.setswitchinterval(switch_s)


def _look(seen: Sampled, over: threading.Event) -> None:
    looked_s, used_s = time.monotonic(), dict[int, float]()
    while not over.wait(_LOOK_S):
        before_s, looked_s = looked_s, time.monotonic()
        native = {one.ident: one.native_id for one in threading.enumerate()}
        for ident, frame in sys._current_frames().items():  # noqa: SLF001  # the documented way
            thread = native.get(ident)
            if thread is None or ident == threading.get_ident():
                continue
            cpu_before_s = used_s.get(ident)
            used_s[ident] = thread_cpu_s(thread)
            path = users_path(frame)
            if path and cpu_before_s is not None:
                seen.wall_s[path] += looked_s - before_s
                seen.cpu_s[path] += used_s[ident] - cpu_before_s


def users_path(frame: FrameType | None) -> UsersPath:
    """Return the user's functions on a stack; none where the thread waits for another one.

    Where none is the user's own, code of a library is what is told.
    """
    if frame is None or frame.f_code.co_filename.startswith(_WAITS):
        return ()
    own: list[Place] = []
    library: list[Place] = []
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith((_HARNESS, "<")):
            place = Place(frame.f_code.co_qualname, file, frame.f_code.co_firstlineno)
            if any(one in file for one in _SITE):
                library.append(place)
            elif not file.startswith(_PYTHON):
                own.append(place)
        frame = frame.f_back
    return tuple(reversed(own or library))


def functions(path: UsersPath) -> tuple[str, ...]:
    """Return the names of a path's functions."""
    return tuple(place.function for place in path)
