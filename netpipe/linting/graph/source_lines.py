"""Where a pipeline was written: the lines of the user's code that made its datasets."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from inspect import currentframe
from pathlib import Path
from threading import Lock
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


# typing calls the constructor of a class with parameters, as in `Dataset[int](...)`.
_LIBRARIES: Final = ("grain", "typing")
# One set of hooks serves all recordings that run: nested or in threads, they may end in any
# order, and the last one to end removes the hooks.
_LOCK: Final = Lock()
_RUNNING: Final[list[Recording]] = []
_HOOKS: Final = ExitStack()


@contextmanager
def record_source_lines() -> Iterator[Recording]:
    """Record the datasets that any thread makes within the context.

    Only public names of Grain are hooked, and only within the context: the constructors that every
    dataset runs, and `IterDataset.mp_prefetch`.
    """
    recording = Recording()
    with _LOCK:
        if not _RUNNING:
            _hook_grain()
        _RUNNING.append(recording)
    try:
        yield recording
    finally:
        with _LOCK:
            _RUNNING.remove(recording)
            if not _RUNNING:
                _HOOKS.close()


def _hook_grain() -> None:
    import grain

    _hook(grain.MapDataset, "__init__", "made")
    _hook(grain.IterDataset, "__init__", "made")
    _hook(grain.IterDataset, "mp_prefetch", "without_workers")


def _hook(kind: type, name: str, attribute: str) -> None:
    """Note the lines that call a method, in an attribute of every recording that runs."""
    original = getattr(kind, name)

    @wraps(original)
    def call_and_note(dataset: object, *args: Any, **options: Any) -> object:
        result = original(dataset, *args, **options)
        # A constructor returns None, and `mp_prefetch` without workers the dataset itself.
        if result is None or result is dataset:
            line = _user_line(dataset)
            for recording in tuple(_RUNNING):
                getattr(recording, attribute)[id(dataset)] = (dataset, line)
        return result

    setattr(kind, name, call_and_note)
    _HOOKS.callback(setattr, kind, name, original)


def _user_line(dataset: object) -> _Line:
    """Return the nearest line outside Grain, this harness and the dataset's own constructors."""
    frame = currentframe()
    while frame is not None:
        module, code = str(frame.f_globals.get("__name__")), frame.f_code
        is_library = module.startswith(HARNESS_MODULES) or module.partition(".")[0] in _LIBRARIES
        is_constructor = code.co_name == "__init__" and any(
            frame.f_locals.get(name) is dataset for name in code.co_varnames[:1]
        )
        if not (is_library or is_constructor):
            return code.co_filename, frame.f_lineno
        frame = frame.f_back
    return "", 0


def _format_line(entry: tuple[object, _Line] | None) -> str:
    """Format a line as file:line, relative to the working directory if the file is below it."""
    if entry is None or not entry[1][0]:
        return ""
    file, line = entry[1]
    path = Path(file).resolve()
    if path.is_file() and path.is_relative_to(Path.cwd()):
        file = str(path.relative_to(Path.cwd()))
    return f"{file}:{line}"
