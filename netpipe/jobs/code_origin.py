"""Check the origin of this process's code: a session must not run code of another version."""

import ast
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Final

from netpipe.errors import InputError, MisuseError
from netpipe.files.text_files import read_toml
from netpipe.git import GitError, git

_INSTALL_EDITABLE: Final = (
    "Install the project editable (`pip install -e .`, or `package = editable` in tox)"
)
# A session asks twice or more, and reading the names of all distributions takes 0.2 s.
_list_owners: Final = cache(metadata.packages_distributions)
# Python and pytest find these by their own rules, so a module of the same name is not a copy.
_LOADED_OTHERWISE: Final = {*sys.stdlib_module_names, "__main__", "__mp_main__", "conftest"}


def check_origin(
    code_from: str, not_from: Sequence[str], modules: Mapping[str, ModuleType] | None = None
) -> None:
    """Raise an error if this process runs the checkout's code from another place.

    Worker processes inherit the search path, so all imports in the checkout's code are looked up,
    executed or not. An empty `code_from` allows any code; `not_from` lists other checkouts.

    Raises:
        MisuseError: A module is in one of the `not_from` folders, is a copy of a module of the
            checkout, or was installed from the checkout; the message names its file.
    """
    if not code_from:
        return
    loaded = dict(sys.modules if modules is None else modules)
    named = {name: getattr(module, "__file__", None) for name, module in loaded.items()}
    files = {name: Path(file).resolve() for name, file in named.items() if isinstance(file, str)}
    allowed = [Path(folder).resolve() for folder in (code_from, sys.prefix, sys.base_prefix)]
    others = [Path(folder).resolve() for folder in not_from]
    for name, file in files.items():
        around = [folder for folder in (*allowed, *others) if file.is_relative_to(folder)]
        if max(around, key=lambda folder: len(folder.parts), default=None) in others:
            raise MisuseError(
                f"this session must run the code of {code_from}; found {name} from {file}"
            )
    checkout = _Checkout(allowed[0], [*allowed[1:], *others])
    owners = _list_owners()
    for name, file in (*_loaded_units(files), *_imported_units(files.values(), checkout)):
        checkout.refuse_copy(name, file, owners.get(name.partition(".")[0], ()))


class _Checkout:
    """The Python files of a checkout that git does not ignore."""

    def __init__(self, folder: Path, excluded: Sequence[Path]) -> None:
        self.folder = folder
        words = ("ls-files", "-z", "--cached", "--others", "--exclude-standard", "--")
        try:
            names = git(folder, *words, "*.py", "*pyproject.toml").split("\0")
        except GitError as error:
            raise MisuseError(f"git must list the code of {folder}; found: {error}") from None
        inside = [other for other in excluded if other != folder and other.is_relative_to(folder)]
        listed = [folder / name for name in filter(None, names)]
        self.files = {file for file in listed if not any(map(file.is_relative_to, inside))}
        self._sources = dict(self._importable())
        declared = (file for file in self.files if file.name == "pyproject.toml")
        self._projects = set(map(_project_name, declared)) - {""}

    def refuse_copy(self, name: str, file: Path, owners: Iterable[str]) -> None:
        """Raise a MisuseError for a module of the checkout, or built from it, that is elsewhere.

        An installed package of another distribution is not a copy, even if the checkout contains a
        file of that name, such as a vendored package.
        """
        if file in self.files:
            return
        source, names = self._sources.get(name), set(map(_normalized, owners))
        if source is not None and not (
            names and self._projects and names.isdisjoint(self._projects)
        ):
            raise MisuseError(
                f"{name} must be imported from {self.folder}, which contains it as {source}; found "
                f"{file}, which every version would run. {_INSTALL_EDITABLE}, or put the folder "
                f"that contains {name.partition('.')[0]} on PYTHONPATH"
            )
        # A namespace package belongs to every distribution that provides a part of it.
        for owner in names & self._projects if "." not in name else ():
            raise MisuseError(
                f"{name} belongs to {owner}, which this checkout contains, and must be built for "
                f"each version; found {file}, which every version would run. {_INSTALL_EDITABLE}"
            )

    def _importable(self) -> Iterator[tuple[str, str]]:
        """Yield each name under which a search path can find a top-level unit, with its file."""
        files = [file.relative_to(self.folder) for file in self.files]
        folders = [file.parent for file in files if file.name == "__init__.py"]
        # Modules in these folders are imported only as parts of a package.
        packages = {folder for folder in folders if folder.name not in ("", "src")}
        for file in files:
            unit = file.parent if file.name == "__init__.py" else file.with_suffix("")
            if file.suffix == ".py" and packages.isdisjoint(unit.parents):
                for start in range(len(unit.parts)):
                    yield ".".join(unit.parts[start:]), str(file)


def _loaded_units(files: Mapping[str, Path]) -> Iterator[tuple[str, Path]]:
    """Yield the loaded packages and modules that are in no other package except a namespace."""
    for name, file in files.items():
        parents = [name[: dot.start()] for dot in re.finditer(r"\.", name)]
        if name.partition(".")[0] not in _LOADED_OTHERWISE and not files.keys() & set(parents):
            yield name, file


def _imported_units(files: Iterable[Path], checkout: _Checkout) -> Iterator[tuple[str, Path]]:
    """Yield the packages and modules that loaded files of the checkout import, even indirectly."""
    left = list(checkout.files.intersection(files))
    seen = set(left)
    while left:
        for name in _imports(left.pop()):
            if found := _find_unit(name):
                yield found
                if found[1] in checkout.files and found[1] not in seen:
                    seen.add(found[1])
                    left.append(found[1])


def _imports(file: Path) -> Iterator[str]:
    with suppress(OSError, SyntaxError, ValueError):
        for node in ast.walk(ast.parse(file.read_bytes())):
            if isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _find_unit(name: str) -> tuple[str, Path] | None:
    """Return the first package or module of a dotted name with its file, without importing it."""
    if name.partition(".")[0] in _LOADED_OTHERWISE:
        return None
    for dot in re.finditer(r"\.|$", name):
        part = name[: dot.start()]
        spec = None
        # An import hook may refuse the module, or a module made by hand may have no spec.
        with suppress(ImportError, ValueError):
            spec = find_spec(part)
        if spec is None:
            return None
        if spec.has_location and spec.origin:
            return part, Path(spec.origin).resolve()
    return None


def _project_name(file: Path) -> str:
    """Return the normalized project name in a pyproject.toml; "" without one."""
    with suppress(InputError, AttributeError, TypeError):
        project = read_toml(file).get("project", {})
        return _normalized(project.get("name", ""))
    return ""


def _normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
