"""Targets: `package.module:name` or `path/to/file.py:name`, and the callables behind them."""

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from netpipe.harness.errors import MisuseError


def resolve(target: str) -> Callable[..., Any]:
    """Import a target and return the callable that it names.

    A file is imported under its own stem with its folder on `sys.path`, so that worker processes
    can import what it defines.

    Raises:
        MisuseError: There is no such file, module or name, or it is not callable.
    """
    where, separator, name = target.rpartition(":")
    if not separator or not where or not name:
        raise MisuseError(
            f"a target must be package.module:name or path/to/file.py:name; found {target!r}"
        )
    module = _module_of_file(Path(where)) if where.endswith(".py") else _module(where)
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
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    module = _module(path.stem)
    loaded = Path(module.__file__ or "").resolve()
    if loaded != path.resolve():
        raise MisuseError(
            f"{path}: its name must not hide another module; found {path.stem} in {loaded}. "
            "Rename the file"
        )
    return module


def _module(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{name}.".startswith(f"{error.name}."):
            raise MisuseError(f"module {name}: must be importable; found none") from error
        raise
