"""Targets, which name callables for another process, and the factories they resolve to."""

import importlib
import re
import shlex
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from importlib.machinery import PathFinder
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

from netpipe.device.emulated_names import Flops
from netpipe.errors import MisuseError
from netpipe.files.paths import find_path_problem

Batch = Any
LoaderFactory = Callable[[], Iterable[Batch]]


@dataclass(frozen=True)
class Target:
    """A callable that a process imports.

    Attributes:
        where: The dotted name of a module, or the path of a file.
        arguments: JSON values to call it with. Without any, the callable itself is the factory.
        storage: The storage that the factory's loader is placed in; "" for none.
    """

    where: str
    name: str
    arguments: tuple[Any, ...] = ()
    storage: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "arguments", tuple(self.arguments))  # JSON has lists only

    @classmethod
    def parse(cls, text: str) -> "Target":
        """Parse `package.module:name`, optionally with arguments, or `path/to/file.py:name`.

        Raises:
            MisuseError: The text does not have one of these forms.
        """
        with_words = re.fullmatch(r"([\w.]+):(\w+) (.+)", text)
        where, name, words = with_words.groups() if with_words else ("", "", "")
        if not with_words:
            where, _, name = text.rpartition(":")
        constraint = "be package.module:name or path/to/file.py:name"
        if where and name:
            constraint = find_path_problem(where)
        try:
            arguments = tuple(shlex.split(words))
        except ValueError:
            constraint = "close its quotes"
        if constraint:
            raise MisuseError(f"a target must {constraint}; found {text!r}")
        return cls(where, name, arguments)

    def __str__(self) -> str:
        words = [shlex.join(map(str, self.arguments))] if self.arguments else []
        return " ".join([f"{self.where}:{self.name}", *words])


def name_targets(**named: Target | str | None) -> dict[str, Target]:
    """Return the targets of a request by their roles: loader, step, loop; None is left out.

    Raises:
        MisuseError: A text is not a target.
    """
    return {
        role: Target.parse(target) if isinstance(target, str) else target
        for role, target in named.items()
        if target is not None
    }


@dataclass(frozen=True)
class Factories:
    """The callables and settings that the user provides; netpipe adds the keyword-only ones.

    Attributes:
        step: Makes `(state, step)`; optional with an emulated accelerator.
        loop: The trainer's own loop; by default the harness's loop is used.
        synthetic: Makes at least two batches, on which the step alone is timed; by default the
            loader's first batches are used.
        fingerprint: Names the data and configuration; results are compared only if it is equal.
        flops_per_step: As in `MeasureRequest`.
        assumed_mfu: The MFU from which the time of an emulated step is derived.
        import_s: Seconds that importing the factories took; None in a test's session.
    """

    loader: Callable[[], Any]
    step: Callable[[], Any] | None = None
    loop: Callable[..., object] | None = None
    synthetic: Callable[[], Any] | None = None
    fingerprint: str = ""
    flops_per_step: Flops = None
    assumed_mfu: float | None = field(default=None, kw_only=True)
    import_s: float | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        """Check the values of fixtures, which may be what a factory makes instead of a factory."""
        for name in ("loader", "step", "loop", "synthetic"):
            made = getattr(self, name)
            if not callable(made) and (made is not None or name == "loader"):
                raise MisuseError(f"netpipe_{name} must return a callable; found {made!r:.80}")
        if not isinstance(self.fingerprint, str):
            raise MisuseError(f"netpipe_fingerprint must return text; found {self.fingerprint!r}")

    @property
    def flops(self) -> Flops:
        """`flops_per_step`, or else the attribute of `step` with this name."""
        of_step: Flops = getattr(self.step, "flops_per_step", None)
        return of_step if self.flops_per_step is None else self.flops_per_step


def resolve(target: Target) -> Callable[..., Any]:
    """Import a target and return its factory, without its storage.

    A file is imported under its stem with its folder on `sys.path`, where worker processes find it
    too. Python runs with `-P`, so the current folder is added after the standard library.

    Raises:
        MisuseError: There is no such file, module or name, or the name is not callable.
    """
    where, name = target.where, target.name
    is_file = where.endswith(".py")
    _add_folder(Path.cwd(), "" if is_file else where.partition(".")[0])
    module = _module_of_file(Path(where)) if is_file else _module(where)
    found = getattr(module, name, None)
    if found is None:
        known = ", ".join(sorted(key for key in vars(module) if not key.startswith("_")))
        raise MisuseError(f"{where}: name must be one of {known or 'none'}; found {name!r}")
    if not callable(found):
        raise MisuseError(f"{target}: must be callable; found {type(found).__name__}")
    if not target.arguments:
        return found  # type: ignore[no-any-return]
    # Importing MaxText, for instance, takes seconds, which must not count as the loader's start.
    getattr(found, "netpipe_prepare", lambda *_: None)(*target.arguments)
    made = partial(found, *target.arguments)
    for name in ("netpipe_storage", "flops_per_step"):
        if hasattr(found, name):
            setattr(made, name, getattr(found, name))
    return made


def _module_of_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise MisuseError(f"{path}: file must exist; found none")
    _add_folder(path.resolve().parent, own=path.stem)
    try:
        found = find_spec(path.stem)
    except (ImportError, ValueError):  # the stem contains a dot
        found = None
    origin = found.origin if found and found.origin else "no file"
    if Path(origin).resolve() != path.resolve():
        raise MisuseError(
            f"{path}: its name must not hide another module; found {path.stem} in {origin}. "
            "Rename the file"
        )
    return _module(path.stem)


def _add_folder(folder: Path, wanted: str = "", own: str = "") -> None:
    """Put a folder on `sys.path`, after the standard library, which its files must not hide.

    The folder comes before the installed packages, so that a checkout hides its installed copy. It
    comes last if a file other than `wanted` has an installed module's name, such as `grain.py`, and
    after the current folder unless that hides `own`, as one conftest.py hides another.
    """
    if str(folder) in sys.path:
        return
    import sysconfig  # slow, and pytest loads this module in every run

    library = Path(sysconfig.get_path("stdlib"))
    platform_library = Path(sysconfig.get_path("platstdlib"))
    folders = (library, platform_library, platform_library / "lib-dynload")
    standard = [n for n, entry in enumerate(sys.path) if Path(entry) in folders]
    behind = max(standard, default=-1) + 1
    names = {file.stem for file in folder.glob("*.py")} - {wanted}
    here = str(Path.cwd())
    installed = [entry for entry in sys.path[behind:] if entry != here]
    if any(PathFinder.find_spec(name, installed) for name in names):
        behind = len(sys.path)
    elif here in sys.path and not PathFinder.find_spec(own, [here]):
        behind = max(behind, sys.path.index(here) + 1)
    sys.path.insert(behind, str(folder))


def _module(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{name}.".startswith(f"{error.name}."):
            raise MisuseError(f"module {name}: must be on PYTHONPATH; found none") from error
        raise
