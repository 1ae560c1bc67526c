"""Whose code a stack runs, and exceptions as text: type, message, and frames of the user's code."""

import os
import sys
import sysconfig
import traceback
from pathlib import Path
from types import ModuleType
from typing import Final

from netpipe.errors import LoaderFailedError, describe_error
from netpipe.jobs.grain_calls import advise

_PACKAGE: Final = Path(__file__).parents[1]
_HARNESS_ROOMS: Final = ("device", "grain_access", "jobs", "linting", "measuring")
# The instruments in the trainer's loop call the clock.
HARNESS_FOLDERS: Final = (
    *(str(_PACKAGE / room) + os.sep for room in _HARNESS_ROOMS), str(_PACKAGE / "clock.py"),
)  # fmt: skip
HARNESS_MODULES: Final = tuple(f"{_PACKAGE.name}.{room}." for room in _HARNESS_ROOMS)

_MAX_FRAMES = 4
_FOREIGN_FOLDERS = {
    *(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")),
    str(_PACKAGE),
}
_FOREIGN = (*(folder + os.sep for folder in _FOREIGN_FOLDERS), "<")


def format_failure(error: BaseException) -> str:
    """Format an exception for the user.

    The type and the text come first, with what to write instead of a call that Grain does not have,
    then the last frames in the user's files, or the last frames at all when there are none. The
    thirty frames of a loader's library would hide both.
    """
    first, source = describe_error(error), error
    if isinstance(error, LoaderFailedError) and error.__cause__ is not None:
        first, source = str(error), error.__cause__
    passed = traceback.extract_tb(source.__traceback__)
    if isinstance(source, SyntaxError) and source.filename:  # it has no frame in that file
        line = (source.text or "").strip()
        passed.append(
            traceback.FrameSummary(source.filename, source.lineno or 0, "<module>", line=line)
        )
    first += _hidden_file(source)
    if advice := advise(source):
        first = f"{first.rstrip('.')}; {advice}"
    return f"{first}\n{format_frames(passed)}".rstrip()


def _hidden_file(error: BaseException) -> str:
    """Name a file of the user that another module with the same name hides."""
    used = getattr(error, "obj", None) if isinstance(error, AttributeError) else None
    if isinstance(error, ImportError):
        used = sys.modules.get((error.name or "").partition(".")[0])
    if not isinstance(used, ModuleType) or used.__file__ is None:
        return ""
    for folder in sys.path:
        file = Path(folder, f"{used.__name__}.py")
        if file.is_file() and file.resolve() != Path(used.__file__).resolve():
            return f"; {file} has the name of the module {used.__file__}: rename the file"
    return ""


def format_frames(frames: traceback.StackSummary, innermost: int = 0) -> str:
    """Format the last frames that lie in the user's files, or else the last of all frames.

    So many of the innermost frames are added, in whichever file they lie.
    """
    own = [frame for frame in frames if not frame.filename.startswith(_FOREIGN)]
    chosen = (own or list(frames))[-_MAX_FRAMES:]
    chosen += [frame for frame in frames[len(frames) - innermost :] if frame not in chosen]
    lines = []
    for frame in chosen:
        # As Python prints them, without the markers below a part of the line.
        lines.append(f'  File "{frame.filename}", line {frame.lineno}, in {frame.name}')
        lines += [f"    {frame.line}"] if frame.line else []
    return "\n".join(lines)
