"""Targets: `package.module:name` or `path/to/file.py:name`, and the callables behind them."""

import importlib
import re
import sys
import sysconfig
from collections.abc import Callable, Iterable
from importlib.machinery import PathFinder
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from netpipe.errors import MisuseError
from netpipe.paths import find_path_problem

Batch = Any
LoaderFactory = Callable[[], Iterable[Batch]]

_STANDARD_LIBRARY: Final = [
    Path(sysconfig.get_path("stdlib")),
    Path(sysconfig.get_path("platstdlib")),
    Path(sysconfig.get_path("platstdlib"), "lib-dynload"),
]


def split(target: str) -> tuple[str, str]:
    """Split a target into its module or file and its name; raise a MisuseError for other text."""
    # A name may have arguments behind it, with colons of their own: see `netpipe.maxtext`.
    found = re.match(r"[\w.]+(?=:\w+ )", target)
    where = found[0] if found else target.rpartition(":")[0]
    name = target[len(where) + 1 :]
    constraint = "be package.module:name or path/to/file.py:name"
    if where and name:
        constraint = find_path_problem(where)
    if constraint:
        raise MisuseError(f"a target must {constraint}; found {target!r}")
    return where, name


def resolve(target: str) -> Callable[..., Any]:
    """Import a target and return the callable that it names.

    A file is imported under its own stem with its folder on `sys.path`, so that worker processes
    can import it. The current folder is on `sys.path` too, although sessions start Python with
    `-P`; it comes after the standard library, which it must not hide.

    Raises:
        MisuseError: There is no such file, module or name, or it is not callable.
    """
    where, name = split(target)
    is_file = where.endswith(".py")
    _add_folder(Path.cwd(), "" if is_file else where.partition(".")[0])
    module = _module_of_file(Path(where)) if is_file else _module(where)
    found = getattr(module, name, None)
    if found is None:
        known = ", ".join(sorted(key for key in vars(module) if not key.startswith("_")))
        raise MisuseError(f"{where}: name must be one of {known or 'none'}; found {name!r}")
    if not callable(found):
        raise MisuseError(f"{target}: must be callable; found {type(found).__name__}")
    return found  # type: ignore[no-any-return]


def _module_of_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise MisuseError(f"{path}: file must exist; found none")
    _add_folder(path.resolve().parent)
    try:
        found = find_spec(path.stem)
    except (ImportError, ValueError):  # a stem with a dot is no module name
        found = None
    origin = found.origin if found and found.origin else "no file"
    if Path(origin).resolve() != path.resolve():
        raise MisuseError(
            f"{path}: its name must not hide another module; found {path.stem} in {origin}. "
            "Rename the file"
        )
    return _module(path.stem)


def _add_folder(folder: Path, wanted: str = "") -> None:
    """Put a folder on `sys.path`, after the standard library, which its files must not hide.

    Usually it comes before the installed packages, so that a checkout is measured and not an
    installed copy of it. It comes last if one of its files has the name of an installed module,
    such as `grain.py` or `datasets.py`; the module `wanted` may have such a name.
    """
    if str(folder) in sys.path:
        return
    standard = [n for n, entry in enumerate(sys.path) if Path(entry) in _STANDARD_LIBRARY]
    behind = max(standard, default=-1) + 1
    names = {file.stem for file in folder.glob("*.py")} - {wanted}
    if any(PathFinder.find_spec(name, sys.path[behind:]) for name in names):
        behind = len(sys.path)
    sys.path.insert(behind, str(folder))


def _module(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{name}.".startswith(f"{error.name}."):
            raise MisuseError(f"module {name}: must be importable; found none") from error
        raise
