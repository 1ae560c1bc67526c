"""Where the code of this process came from: a session must not run another version's code."""

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Final

from netpipe.errors import InputError, MisuseError
from netpipe.git import GitError, git
from netpipe.text_files import read_toml

# Python and pytest find these by their own rules, so a module of the same name is no copy.
_LOADED_OTHERWISE: Final = {*sys.stdlib_module_names, "__main__", "__mp_main__", "conftest"}


def check_origin(
    code_from: str, not_from: Sequence[str], modules: Mapping[str, ModuleType] | None = None
) -> None:
    """Refuse a process that runs code from elsewhere than its checkout.

    An empty `code_from` stands for any code; `not_from` are other checkouts of the same repository.

    Raises:
        MisuseError: A module lies in one of `not_from`, or is a copy of a module of the checkout,
            or was installed from the checkout; the message names its file.
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
    _refuse_copies(allowed[0], [*allowed[1:], *others], set(files))


def _refuse_copies(folder: Path, excluded: Sequence[Path], loaded: set[str]) -> None:
    """Refuse a module of a checkout, or one built from it, that would be imported from elsewhere.

    Worker processes import more than this process, so every name is looked up. A file of the
    checkout may have the name of an unrelated installed package, for example of a vendored one,
    which is no copy. Where the checkout declares no project, that cannot be told, and only
    `loaded` modules are looked up.
    """
    code = _list_code(folder, excluded)
    projects = {_project_name(file) for file in code if file.name == "pyproject.toml"} - {""}
    distributions = metadata.packages_distributions().items()
    owners = {name: set(map(_normalized, names)) for name, names in distributions}
    modules = dict(_importable([file.relative_to(folder) for file in code]))
    if not projects:
        modules = {name: modules[name] for name in modules.keys() & loaded}
    built = {
        name: f"part of {owner}" for owner in projects for name in owners if owner in owners[name]
    }
    for name, source in (built | modules).items():
        file, names = _find_file(name), owners.get(name.partition(".")[0], set())
        is_unrelated = projects and names and names.isdisjoint(projects)
        if file is not None and file not in code and not is_unrelated:
            raise MisuseError(
                f"{name} must be imported from {folder}, which contains it as {source}; found "
                f"{file}, which every version would run. Install the project editable (`pip "
                "install -e .`, or `package = editable` in tox), or put the folder that contains "
                f"{name.partition('.')[0]} on PYTHONPATH"
            )


def _list_code(folder: Path, excluded: Sequence[Path]) -> set[Path]:
    """Return the Python files and projects of a checkout that git does not ignore."""
    words = ("ls-files", "-z", "--cached", "--others", "--exclude-standard", "--")
    try:
        listed = git(folder, *words, "*.py", "*pyproject.toml").split("\0")
    except GitError as error:
        raise MisuseError(f"git must list the code of {folder}; found: {error}") from None
    inside = [other for other in excluded if other != folder and other.is_relative_to(folder)]
    files = {folder / file for file in filter(None, listed)}
    return {file for file in files if not any(map(file.is_relative_to, inside))}


def _importable(files: Sequence[Path]) -> Iterator[tuple[str, str]]:
    """Yield top-level packages and modules by every name that a search path can give them."""
    folders = [file.parent for file in files if file.name == "__init__.py"]
    # In these, modules are imported only as parts of a package.
    packages = {folder for folder in folders if folder.name not in ("", "src")}
    for file in files:
        unit = file.parent if file.name == "__init__.py" else file.with_suffix("")
        if file.suffix == ".py" and packages.isdisjoint(unit.parents):
            for start in range(len(unit.parts)):
                yield ".".join(unit.parts[start:]), str(file)


def _find_file(name: str) -> Path | None:
    """Return the file of a module, which is not imported; None where it is part of a package."""
    if name.partition(".")[0] in _LOADED_OTHERWISE:
        return None
    # An import hook may refuse a module, and one that was made by hand has no spec.
    with suppress(ImportError, ValueError):
        for dot in re.finditer(r"\.|$", name):
            spec = find_spec(name[: dot.start()])
            if spec is None:
                break
            if spec.has_location and spec.origin:
                return None if dot[0] else Path(spec.origin).resolve()
    return None


def _project_name(file: Path) -> str:
    """Return the normalized name that a pyproject.toml declares; "" where it declares none."""
    with suppress(InputError, AttributeError, TypeError):
        project = read_toml(file).get("project", {})
        return _normalized(project.get("name", ""))
    return ""


def _normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
