"""The lines of the user's code that made a pipeline's datasets."""

from collections.abc import Iterator
from contextlib import contextmanager
from inspect import currentframe
from pathlib import Path
from types import CodeType
from typing import Any, Final

from netpipe.grain_access.replaced_methods import Method, pass_to, replaced_method
from netpipe.jobs.failure import HARNESS_MODULES

# typing calls the constructor of a class with parameters, as in `Dataset[int](...)`.
_LIBRARIES: Final = ("grain", "typing")


class Recording:
    """The line that made each dataset, as `record_source_lines` recorded it."""

    def __init__(self) -> None:
        # Keyed by whether a constructor was called, and by the dataset's id. The datasets are kept,
        # because an id is only unique while its object lives.
        self._lines: dict[tuple[bool, int], tuple[object, str]] = {}

    def note(self, original: Method, dataset: object, *args: Any, **options: Any) -> object:
        """Call a method of a dataset, and note the line that called it."""
        result = original(dataset, *args, **options)
        # A constructor returns None; `mp_prefetch` without workers returns the dataset itself.
        if result is None or result is dataset:
            self._lines[result is None, id(dataset)] = dataset, _user_line(dataset)
        return result

    def made_at(self, dataset: object) -> str:
        """Return the line that made a dataset, as file:line; "" if it was not recorded."""
        return self._lines.get((True, id(dataset)), (dataset, ""))[1]

    def without_workers_at(self, dataset: object) -> str | None:
        """Return the line that called `mp_prefetch` without workers on a dataset, or None."""
        return self._lines.get((False, id(dataset)), (dataset, None))[1]


@contextmanager
def record_source_lines() -> Iterator[Recording]:
    """Record the lines that make datasets within the context, in any thread.

    Only public names of Grain are replaced: the constructors that every dataset runs, and
    `IterDataset.mp_prefetch`.
    """
    import grain

    recording = Recording()
    note = pass_to(recording.note)
    with (
        replaced_method(grain.MapDataset, "__init__", note),
        replaced_method(grain.IterDataset, "__init__", note),
        replaced_method(grain.IterDataset, "mp_prefetch", note),
    ):
        yield recording


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
