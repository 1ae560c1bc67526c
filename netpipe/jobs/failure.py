"""Exceptions and stacks as text for the user: type, message, and frames of the user's code."""

import os
import re
import sys
import sysconfig
import traceback
from pathlib import Path
from types import ModuleType
from typing import Final

from netpipe.errors import LoaderFailedError, describe_error
from netpipe.jobs.processes import LOWER_BUFFERS

_PACKAGE: Final = Path(__file__).parents[1]
_HARNESS_PACKAGES: Final = ("device", "grain_access", "jobs", "linting", "measuring")
# Frames of the clock appear because the harness's instruments in the trainer's loop call it.
HARNESS_FOLDERS: Final = (
    *(str(_PACKAGE / name) + os.sep for name in _HARNESS_PACKAGES), str(_PACKAGE / "clock.py"),
)  # fmt: skip
HARNESS_MODULES: Final = tuple(f"{_PACKAGE.name}.{name}." for name in _HARNESS_PACKAGES)
SITE_FOLDERS: Final = ("site-packages", "dist-packages")
STDLIB_FOLDER: Final = sysconfig.get_path("stdlib") + os.sep

# Each pattern matches a Grain class and its missing attribute, or the text of an error.
_ADVICE: Final = {
    r" MapDataset\.(mp_)?prefetch\b": (
        "write .to_iter_dataset(grain.ReadOptions(num_threads=0)).mp_prefetch(...)"
    ),
    r" IterDataset\.(range|repeat|shuffle|slice|source)\b"
    r"|IterDataset' (object is not subscriptable|has no len)": (
        "write it on a grain.MapDataset, before .to_iter_dataset(...)"
    ),
    r" (IterDataset|DataLoader)\.to_iter_dataset\b": "leave .to_iter_dataset(...) out",
    r" DataLoader\.(apply|batch|filter|map|map_with_index|pipe|random_map)\b": (
        "write a class of grain.transforms in operations=[...] of grain.DataLoader(...)"
    ),
    r" DataLoader\.(mp_)?prefetch\b|DataLoader\.__init__\(\) got an .* 'num_workers'": (
        "write worker_count=2 in grain.DataLoader(...)"
    ),
    r" DataLoader\.(repeat|seed|shuffle|slice)\b": (
        "write sampler=grain.samplers.IndexSampler(..., shuffle=True, num_epochs=None)"
    ),
    r"mp_prefetch\(\) got an ": "write .mp_prefetch(grain.MultiprocessingOptions(num_workers=2))",
    r" PerformanceConfig\.num_workers": "write .mp_prefetch(config.multiprocessing_options)",
    r" PerformanceConfig\.num_threads": "write .to_iter_dataset(config.read_options)",
    r"Config\.update\(\) got an .* '(py_\w+)'": r'write grain.config.update("\1", ...)',
    r"Saving the dataset graph": 'set it to "", and draw by netpipe lint TARGET --svg FILE',
    r"exit code -[79]\b|MemoryError: ": f"memory may have run out: {LOWER_BUFFERS}",
}
_MAX_FRAMES = 4
_FOREIGN_FOLDERS = {
    *(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")),
    str(_PACKAGE),
}
_FOREIGN = (*(folder + os.sep for folder in _FOREIGN_FOLDERS), "<")


def format_failure(error: BaseException) -> str:
    """Format an exception for the user.

    The type and the text come first, with a replacement for a call that Grain does not have. The
    last frames in the user's files follow. Frames of libraries appear only if there are no others.
    """
    first, source = describe_error(error), error
    if isinstance(error, LoaderFailedError) and error.__cause__ is not None:
        first, source = str(error), error.__cause__
    passed = traceback.extract_tb(source.__traceback__)
    if isinstance(source, SyntaxError) and source.filename:  # no frame refers to this file
        line = (source.text or "").strip()
        passed.append(
            traceback.FrameSummary(source.filename, source.lineno or 0, "<module>", line=line)
        )
    first += _hidden_file(source)
    if advice := advise(source):
        first = f"{first.rstrip('.')}; {advice}"
    return f"{first}\n{format_frames(passed)}".rstrip()


def _hidden_file(error: BaseException) -> str:
    """Return a hint about a user's file that a module of the same name hides; "" if none."""
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
    """Format the last frames in the user's files, or the last of any if there are none.

    The last `innermost` frames are included, whatever their file.
    """
    own = [frame for frame in frames if not frame.filename.startswith(_FOREIGN)]
    chosen = (own or list(frames))[-_MAX_FRAMES:]
    chosen += [frame for frame in frames[len(frames) - innermost :] if frame not in chosen]
    lines = []
    for frame in chosen:
        # Python's format, without the markers under parts of a line.
        lines.append(f'  File "{frame.filename}", line {frame.lineno}, in {frame.name}')
        lines += [f"    {frame.line}"] if frame.line else []
    return "\n".join(lines)


def advise(error: BaseException) -> str:
    """Return advice for an error, from its text and Grain's public names; "" without any."""
    text = describe_error(error)
    if isinstance(error, AttributeError):
        owner = error.obj if isinstance(error.obj, type) else type(error.obj)
        kinds = [kind for kind in owner.__mro__ if str(kind.__module__).startswith("grain.")]
        text = "".join(f" {kind.__name__}.{error.name}" for kind in kinds) + f" {text}"
    found = (match.expand(_ADVICE[each]) for each in _ADVICE if (match := re.search(each, text)))
    return next(found, "")
