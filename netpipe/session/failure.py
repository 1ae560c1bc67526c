"""Formatting an exception for the user: its type, its text, and the frames of the user's code."""

import os
import sys
import sysconfig
import traceback
from pathlib import Path
from types import ModuleType

from netpipe.errors import LoaderFailedError

_MAX_FRAMES = 4
_FOREIGN_FOLDERS = {
    *(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")),
    str(Path(__file__).parents[1]),
}
_FOREIGN = (*(folder + os.sep for folder in _FOREIGN_FOLDERS), "<")


def format_failure(error: BaseException) -> str:
    """Format an exception for the user.

    The type and the text come first, then the last frames in the user's files, or the last frames
    at all when there are none. The thirty frames of a loader's library would hide both.
    """
    failed = isinstance(error, LoaderFailedError) and error.__cause__ is not None
    source = error.__cause__ if failed and error.__cause__ is not None else error
    first = str(error) if failed else f"{type(error).__name__}: {error}"
    passed = traceback.extract_tb(source.__traceback__)
    if isinstance(source, SyntaxError) and source.filename:  # it has no frame in that file
        place = (source.filename, source.lineno or 0, "<module>")
        passed.append(traceback.FrameSummary(*place, line=(source.text or "").strip()))
    return f"{first}{_hidden_file(source)}\n{format_frames(passed)}".rstrip()


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

    Args:
        frames: All frames, the innermost last.
        innermost: How many of the last frames to add, in whichever file they lie.
    """
    own = [frame for frame in frames if not frame.filename.startswith(_FOREIGN)]
    chosen = (own or list(frames))[-_MAX_FRAMES:]
    chosen += [frame for frame in frames[len(frames) - innermost :] if frame not in chosen]
    # As Python prints them, without the markers below a part of the line.
    return "\n".join(
        f'  File "{one.filename}", line {one.lineno}, in {one.name}\n    {one.line}'.rstrip()
        for one in chosen
    )
