"""Telling of an exception: its type, its text, and the lines that a user can act on."""

import os
import sys
import sysconfig
import traceback
from pathlib import Path
from types import ModuleType

from netpipe.errors import LoaderFailedError

_MOST_FRAMES = 4
_FOREIGN_FOLDERS = {
    *(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")),
    str(Path(__file__).parents[1]),
}
_FOREIGN = (*(folder + os.sep for folder in _FOREIGN_FOLDERS), "<")


def format_failure(error: BaseException) -> str:
    """Return an exception as the user is to see it.

    The type and the text come first; below them the last lines of the user's own files that it
    passed, or its last lines at all where it passed none: a loader's own thirty frames hide both.
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
    """Name the user's file that was not imported because another module has its name."""
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
    """Return the last frames that lie in the user's files, else the last of all.

    Args:
        frames: All of them, the innermost last.
        innermost: How many of the last to add, whosever they are.
    """
    own = [frame for frame in frames if not frame.filename.startswith(_FOREIGN)]
    chosen = (own or list(frames))[-_MOST_FRAMES:]
    chosen += [frame for frame in frames[len(frames) - innermost :] if frame not in chosen]
    # As Python prints them, without the marks under a part of the line.
    return "\n".join(
        f'  File "{one.filename}", line {one.lineno}, in {one.name}\n    {one.line}'.rstrip()
        for one in chosen
    )
