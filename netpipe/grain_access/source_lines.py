"""The lines of the user's code that made a pipeline's datasets."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from inspect import currentframe
from pathlib import Path
from types import CodeType
from typing import Any, Final

from netpipe.grain_access.replaced_methods import Method, replaced_method
from netpipe.jobs.failure import HARNESS_MODULES

# Keeps the datasets, because an id is only unique while its object lives.
_Lines = dict[int, tuple[object, str]]
# typing calls the constructor of a class with parameters, as in `Dataset[int](...)`.
_LIBRARIES: Final = ("grain", "typing")


class Recording:
    """The line that made each dataset, as `record_source_lines` recorded it."""

    def __init__(self) -> None:
        self.made: _Lines = {}
        self.without_workers: _Lines = {}

    def made_at(self, dataset: object) -> str:
        """Return the line that made a dataset, as file:line; "" if it was not recorded."""
        return self.made.get(id(dataset), (dataset, ""))[1]

    def without_workers_at(self, dataset: object) -> str | None:
        """Return the line that called `mp_prefetch` without workers on a dataset, or None."""
        return self.without_workers.get(id(dataset), (dataset, None))[1]


@contextmanager
def record_source_lines() -> Iterator[Recording]:
    """Record the lines that make datasets within the context, in any thread.

    Only public names of Grain are replaced: the constructors that every dataset runs, and
    `IterDataset.mp_prefetch`.
    """
    import grain

    recording = Recording()
    note_made, note_no_workers = map(_note_in, (recording.made, recording.without_workers))
    with (
        replaced_method(grain.MapDataset, "__init__", note_made),
        replaced_method(grain.IterDataset, "__init__", note_made),
        replaced_method(grain.IterDataset, "mp_prefetch", note_no_workers),
    ):
        yield recording


def _note_in(lines: _Lines) -> Callable[[Method], Method]:
    """Return a wrapper for a method that notes the lines that call it."""

    def wrap(original: Method) -> Method:
        def call_and_note(dataset: object, *args: Any, **options: Any) -> object:
            result = original(dataset, *args, **options)
            # A constructor returns None; `mp_prefetch` without workers returns the dataset itself.
            if result is None or result is dataset:
                lines[id(dataset)] = dataset, _user_line(dataset)
            return result

        return call_and_note

    return wrap


def _user_line(dataset: object) -> str:
    """Return the nearest line outside Grain, this harness and the dataset's own constructors."""
    frame = currentframe()
    while frame is not None:
        module, code = str(frame.f_globals.get("__name__")), frame.f_code
        is_library = module.startswith(HARNESS_MODULES) or module.partition(".")[0] in _LIBRARIES
        is_constructor = code.co_name == "__init__" and any(
            frame.f_locals.get(name) is dataset for name in code.co_varnames[:1]
        )
        if not (is_library or is_constructor):
            return format_line(code, frame.f_lineno)
        frame = frame.f_back
    return ""


def format_line(code: CodeType, number: int) -> str:
    """Return a line as file:line, relative to the working directory if the file is below it."""
    path = Path(code.co_filename).resolve()
    is_below = path.is_file() and path.is_relative_to(Path.cwd())
    return f"{path.relative_to(Path.cwd()) if is_below else code.co_filename}:{number}"
