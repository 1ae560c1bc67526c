"""Where a pipeline was written: the lines of the user's code that made its datasets."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from inspect import currentframe
from pathlib import Path
from threading import Lock
from types import FrameType
from typing import Any, Final

from netpipe.session.failure import HARNESS_MODULES

_Line = tuple[str, int]
# The datasets too: an id is only unique while its object lives.
_Lines = dict[int, tuple[object, _Line]]


class Recording:
    """What `record_source_lines` recorded: the line that made each dataset."""

    def __init__(self) -> None:
        self.made: _Lines = {}
        self.without_workers: _Lines = {}

    def made_at(self, dataset: object) -> str:
        """Return the line that made a dataset, as file:line; "" if it was not recorded."""
        return _format_line(self.made.get(id(dataset)))

    def without_workers_at(self, dataset: object) -> str | None:
        """Return the line that called `mp_prefetch` on it without workers; None if none did."""
        entry = self.without_workers.get(id(dataset))
        return None if entry is None else _format_line(entry)


@contextmanager
def record_source_lines() -> Iterator[Recording]:
    """Record the datasets that any thread makes within the context.

    Only public names of Grain are hooked, and only within the context: the constructors that every
    dataset runs, and `IterDataset.mp_prefetch`.
    """
    recording = Recording()
    with _LOCK:
        if not _RUNNING:
            _install_hooks()
        _RUNNING.append(recording)
    try:
        yield recording
    finally:
        with _LOCK:
            _RUNNING.remove(recording)
            while _UNDO and not _RUNNING:
                _UNDO.pop()()


# One set of hooks serves all recordings that run: nested or in threads, they may end in any
# order, and the last one to end removes the hooks.
_LOCK: Final = Lock()
_RUNNING: Final[list[Recording]] = []
_UNDO: Final[list[Callable[[], None]]] = []


def _install_hooks() -> None:
    import grain

    def note_made(_: object, dataset: object) -> None:
        line = _user_line(dataset)
        for recording in tuple(_RUNNING):
            recording.made[id(dataset)] = (dataset, line)

    def note_without_workers(prefetched: object, dataset: object) -> None:
        if prefetched is dataset:
            line = _user_line(dataset)
            for recording in tuple(_RUNNING):
                recording.without_workers[id(dataset)] = (dataset, line)

    _hook(grain.MapDataset, "__init__", note_made)
    _hook(grain.IterDataset, "__init__", note_made)
    _hook(grain.IterDataset, "mp_prefetch", note_without_workers)


def _hook(kind: type, name: str, note: Callable[[object, object], None]) -> None:
    """Call `note` with the result and the dataset after each call of a method."""
    original = getattr(kind, name)

    @wraps(original)
    def call_and_note(dataset: object, *args: Any, **options: Any) -> object:
        result = original(dataset, *args, **options)
        note(result, dataset)
        return result

    setattr(kind, name, call_and_note)
    _UNDO.append(lambda: setattr(kind, name, original))


# typing calls the constructor of a class with parameters, as in `Dataset[int](...)`.
_LIBRARIES: Final = ("grain", "typing")


def _user_line(dataset: object) -> _Line:
    """Return the nearest line outside Grain, this harness and the dataset's own constructors."""
    frame = currentframe()
    while frame is not None and (_is_library(frame) or _is_constructor(frame, dataset)):
        frame = frame.f_back
    return ("", 0) if frame is None else (frame.f_code.co_filename, frame.f_lineno)


def _is_library(frame: FrameType) -> bool:
    module = str(frame.f_globals.get("__name__"))
    return module.partition(".")[0] in _LIBRARIES or module.startswith(HARNESS_MODULES)


def _is_constructor(frame: FrameType, dataset: object) -> bool:
    """Whether a frame is the `__init__` of the user's own dataset class."""
    code = frame.f_code
    return code.co_name == "__init__" and any(
        frame.f_locals.get(name) is dataset for name in code.co_varnames[:1]
    )


def _format_line(entry: tuple[object, _Line] | None) -> str:
    """Format a line as file:line, relative to the working directory if the file is below it."""
    if entry is None or not entry[1][0]:
        return ""
    file, line = entry[1]
    path = Path(file).resolve()
    if path.is_file() and path.is_relative_to(Path.cwd()):
        file = str(path.relative_to(Path.cwd()))
    return f"{file}:{line}"
