"""Where a pipeline was written: the lines of the user's code that made its datasets."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from inspect import currentframe
from pathlib import Path
from threading import Lock
from types import FrameType
from typing import Any, Final

from netpipe.session.own_code import HARNESS_MODULES

_Place = tuple[str, int]


class Recording:
    """What `recorded` saw. It holds on to the datasets, so that their ids stay theirs."""

    def __init__(self) -> None:
        self._made: dict[int, tuple[object, _Place]] = {}
        self._without_workers: dict[int, tuple[object, _Place]] = {}

    def made_at(self, dataset: object) -> str:
        """Return the line that made a dataset, as file:line; "" if it was not seen."""
        return _written(self._made.get(id(dataset)))

    def without_workers_at(self, dataset: object) -> str | None:
        """Return the line that called `mp_prefetch` on it without workers; None if none did."""
        seen = self._without_workers.get(id(dataset))
        return None if seen is None else _written(seen)

    def note_made(self, dataset: object, place: _Place) -> None:
        """Note that a dataset was made."""
        self._made[id(dataset)] = (dataset, place)

    def note_without_workers(self, dataset: object, place: _Place) -> None:
        """Note that `mp_prefetch` gave a dataset back as it was."""
        self._without_workers[id(dataset)] = (dataset, place)


@contextmanager
def record_source_lines() -> Iterator[Recording]:
    """Record the datasets that are made within, by this thread or another.

    Only names that Grain makes public are hooked, and only meanwhile: the constructors that every
    dataset runs, and `IterDataset.mp_prefetch`.
    """
    recording = Recording()
    with _LOCK:
        if not _RUNNING:
            _UNDO.extend(_hooks())
        _RUNNING.append(recording)
    try:
        yield recording
    finally:
        with _LOCK:
            _RUNNING.remove(recording)
            while _UNDO and not _RUNNING:
                _UNDO.pop()()


# One set of hooks serves every recording that runs: nested or in threads, they may end in any
# order, and the last one to end takes the hooks off.
_LOCK: Final = Lock()
_RUNNING: Final[list[Recording]] = []
_UNDO: Final[list[Callable[[], None]]] = []


def _hooks() -> Iterator[Callable[[], None]]:
    """Hook Grain, and yield what undoes each hook."""
    import grain

    yield _replaced(grain.MapDataset, "__init__", _noting_what_is_made)
    yield _replaced(grain.IterDataset, "__init__", _noting_what_is_made)
    yield _replaced(grain.IterDataset, "mp_prefetch", _noting_no_workers)


def _replaced(
    kind: type, name: str, hook: Callable[[Callable[..., Any]], Callable[..., Any]]
) -> Callable[[], None]:
    original = getattr(kind, name)
    setattr(kind, name, wraps(original)(hook(original)))
    return lambda: setattr(kind, name, original)


def _noting_what_is_made(construct: Callable[..., None]) -> Callable[..., None]:
    def construct_and_note(dataset: object, *args: object, **options: object) -> None:
        construct(dataset, *args, **options)
        place = _place_in_users_code(dataset)
        for recording in tuple(_RUNNING):
            recording.note_made(dataset, place)

    return construct_and_note


def _noting_no_workers(mp_prefetch: Callable[..., object]) -> Callable[..., object]:
    def prefetch_and_note(dataset: object, *args: object, **options: object) -> object:
        prefetched = mp_prefetch(dataset, *args, **options)
        if prefetched is dataset:
            place = _place_in_users_code(dataset)
            for recording in tuple(_RUNNING):
                recording.note_without_workers(dataset, place)
        return prefetched

    return prefetch_and_note


# typing calls the constructor of a class with parameters, as in `Dataset[int](...)`.
_NOT_THE_USERS: Final = ("grain", "typing")


def _place_in_users_code(dataset: object) -> _Place:
    """Return the nearest line outside Grain, this harness and the dataset's own constructors."""
    frame = currentframe()
    while frame is not None and (_is_ours_or_grains(frame) or _constructs(frame, dataset)):
        frame = frame.f_back
    return ("", 0) if frame is None else (frame.f_code.co_filename, frame.f_lineno)


def _is_ours_or_grains(frame: FrameType) -> bool:
    module = str(frame.f_globals.get("__name__"))
    return module.partition(".")[0] in _NOT_THE_USERS or module.startswith(HARNESS_MODULES)


def _constructs(frame: FrameType, dataset: object) -> bool:
    """Whether it is the `__init__` of the user's own class of dataset."""
    code = frame.f_code
    return code.co_name == "__init__" and any(
        frame.f_locals.get(name) is dataset for name in code.co_varnames[:1]
    )


def _written(seen: tuple[object, _Place] | None) -> str:
    """Write a place as file:line, the file as seen from the working directory if it is below."""
    if seen is None or not seen[1][0]:
        return ""
    file, line = seen[1]
    path = Path(file).resolve()
    if path.is_file() and path.is_relative_to(Path.cwd()):
        file = str(path.relative_to(Path.cwd()))
    return f"{file}:{line}"
