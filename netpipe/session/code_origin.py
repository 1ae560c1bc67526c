"""Where the code of this process came from: a session of one version must not run another's."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from types import ModuleType
from typing import Final

from netpipe.errors import MisuseError
from netpipe.git import GitError, run_git

_INSTALL_EDITABLE: Final = (
    "Install the project editable (`pip install -e .`, or `package = editable` in tox)"
)
# Python and pytest find these by their own rules, so another one of the name is no copy.
_LOADED_OTHERWISE: Final = {*sys.stdlib_module_names, "__main__", "__mp_main__", "conftest"}


def check_origin(
    code_from: str, not_from: Sequence[str], modules: Mapping[str, ModuleType] | None = None
) -> None:
    """Refuse a process that runs other code than its own checkout's.

    Worker processes get the search path of this one. So what they will import is what this process
    would import: the imports in the checkout's code are looked up, executed so far or not.

    Args:
        code_from: The checkout that this process is to run; "" for any code.
        not_from: Other checkouts of the same repository.
        modules: What was loaded; by default all that this process has.

    Raises:
        MisuseError: A module lies in one of `not_from`, or is a copy of one that the checkout
            contains, or was installed from it; the message names its file.
    """
    if not code_from:
        return
    files = dict(_files(dict(sys.modules) if modules is None else modules))
    allowed = [Path(one).resolve() for one in (code_from, sys.prefix, sys.base_prefix)]
    others = [Path(one).resolve() for one in not_from]
    for name, file in files.items():
        if _innermost(file, [*allowed, *others]) in others:
            raise MisuseError(
                f"this session must run the code of {code_from}; found {name} from {file}"
            )
    checkout = _Checkout(allowed[0], [*allowed[1:], *others])
    owners = metadata.packages_distributions()
    own_code = list(filter(checkout.contains, files.values()))
    for name, file in (*_loaded_units(files), *_imported_units(own_code, checkout)):
        checkout.refuse_copy(name, file, owners.get(name.partition(".")[0], ()))


class _Checkout:
    """The Python files of a checkout that git is not told to ignore."""

    def __init__(self, folder: Path, excluded: Sequence[Path]) -> None:
        self.folder = folder
        words = ("ls-files", "-z", "--cached", "--others", "--exclude-standard", "--")
        try:
            listed = run_git(folder, *words, "*.py", "*pyproject.toml").split("\0")
        except GitError as error:
            raise MisuseError(f"git must list the code of {folder}; found: {error}") from None
        inside = [one for one in excluded if one != folder and one.is_relative_to(folder)]
        self.files = {
            one
            for one in filter(None, listed)
            if not any((folder / one).is_relative_to(other) for other in inside)
        }
        self._sources = dict(self._importable())
        declared = (_declared_name(folder / one) for one in self.files)
        self._projects = {one for one in declared if one}

    def contains(self, file: Path) -> bool:
        """Return whether a file is part of the checkout's code."""
        return file.is_relative_to(self.folder) and str(file.relative_to(self.folder)) in self.files

    def refuse_copy(self, name: str, file: Path, owners: Iterable[str]) -> None:
        """Refuse a module of the checkout, or one built from it, that lies anywhere else.

        A file of the checkout may have the name of somebody else's installed package, as a
        vendored copy has. That package is no copy of the checkout's.

        Args:
            name: The module.
            file: Where it was found.
            owners: The installed distributions that have a package or module of this name.

        Raises:
            MisuseError: The module must come from the checkout, and the file lies elsewhere.
        """
        if self.contains(file):
            return
        source, names = self._sources.get(name), set(map(_normalised, owners))
        if source is not None and not (
            names and self._projects and names.isdisjoint(self._projects)
        ):
            raise MisuseError(
                f"{name} must be imported from {self.folder}, which contains it as {source}; found "
                f"{file}, which every version would run. {_INSTALL_EDITABLE}, or put the folder "
                f"that contains {name.partition('.')[0]} on PYTHONPATH"
            )
        # A namespace package belongs to each of the distributions that have a part of it.
        for owner in names & self._projects if "." not in name else ():
            raise MisuseError(
                f"{name} belongs to {owner}, which this checkout contains, and must be built for "
                f"each version; found {file}, which every version would run. {_INSTALL_EDITABLE}"
            )

    def _importable(self) -> Iterator[tuple[str, str]]:
        """Give top packages and modules by every name that a folder on the search path allows."""
        for file in map(PurePosixPath, self.files):
            unit = file.parent if file.name == "__init__.py" else file.with_suffix("")
            if file.suffix == ".py" and not any(map(self._is_package, unit.parents)):
                for start in range(len(unit.parts)):
                    yield ".".join(unit.parts[start:]), str(file)

    def _is_package(self, folder: PurePosixPath) -> bool:
        """Return whether modules in a folder are imported as parts of a package only."""
        return folder.name not in ("", "src") and str(folder / "__init__.py") in self.files


def _files(modules: Mapping[str, ModuleType]) -> Iterator[tuple[str, Path]]:
    for name, module in modules.items():
        file = getattr(module, "__file__", None)
        if isinstance(file, str):
            yield name, Path(file).resolve()


def _innermost(file: Path, folders: Sequence[Path]) -> Path | None:
    around = (one for one in folders if file.is_relative_to(one))
    return max(around, key=lambda one: len(one.parts), default=None)


def _loaded_units(files: Mapping[str, Path]) -> Iterator[tuple[str, Path]]:
    """Give the packages and modules that are in no package, or in a namespace package."""
    for name, file in files.items():
        parents = [name[: dot.start()] for dot in re.finditer(r"\.", name)]
        if name.partition(".")[0] not in _LOADED_OTHERWISE and not files.keys() & set(parents):
            yield name, file


def _imported_units(files: Sequence[Path], checkout: _Checkout) -> Iterator[tuple[str, Path]]:
    """Give what files of the checkout import, and what those files of it import in turn."""
    left, seen = list(files), set(files)
    while left:
        for name in _imports(left.pop()):
            found = _found(name)
            if found is None:
                continue
            yield found
            if checkout.contains(found[1]) and found[1] not in seen:
                seen.add(found[1])
                left.append(found[1])


def _imports(file: Path) -> Iterator[str]:
    with suppress(OSError, SyntaxError, ValueError):
        for node in ast.walk(ast.parse(file.read_bytes())):
            if isinstance(node, ast.Import):
                yield from (one.name for one in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                yield from (f"{node.module}.{one.name}" for one in node.names)


def _found(name: str) -> tuple[str, Path] | None:
    """Return the first package or module on the way to a name, and its file, importing neither."""
    if name.partition(".")[0] in _LOADED_OTHERWISE:
        return None
    for dot in re.finditer(r"\.|$", name):
        part = name[: dot.start()]
        try:
            spec = find_spec(part)
        except (ImportError, ValueError):  # a hook refuses it, or it was made by hand
            return None
        if spec is None:
            return None
        if spec.has_location and spec.origin:
            return part, Path(spec.origin).resolve()
    return None


def _declared_name(file: Path) -> str | None:
    if file.name == "pyproject.toml":
        with suppress(OSError, tomllib.TOMLDecodeError, UnicodeDecodeError, AttributeError):
            project = tomllib.loads(file.read_text(encoding="utf-8")).get("project", {})
            return _normalised(project.get("name", ""))
    return None


def _normalised(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
