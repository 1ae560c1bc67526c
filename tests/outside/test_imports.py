"""Names that other code uses: modules, functions, settings and entry points."""

import ast
import importlib
import inspect
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import netpipe
from tests.outside.golden import HERE, ROOT, WRITES, check_lines

PUBLIC: Final = ("README.md", "docs/**/*.md", "examples/**/*.md", "examples/**/*.py",
                 "netpipe/cli/templates/*.jinja")  # fmt: skip
OWN: Final = ("fixtures/*.py", "perf_tests/*.py")
WORKLOAD: Final = re.compile(r"netpipe\.workload\b")
_IMPORT: Final = re.compile(
    r"^ *(?:from (netpipe[\w.]*) import (\([^)]*\)|[\w, ]+)|import (netpipe[\w.]*)$)", re.MULTILINE
)


def collect(patterns: tuple[str, ...], *, of_workload: bool) -> Iterator[str]:
    """Yield each name of netpipe that files import, as module:name."""
    files = sorted(path for pattern in patterns for path in ROOT.glob(pattern))
    text = "\n".join(path.read_text("utf-8") for path in files)
    for module, names, whole in _IMPORT.findall(text):
        (statement,) = ast.parse(f"from {module} import {names.strip()}" if names else "pass").body
        for alias in getattr(statement, "names", (ast.alias(""),)):
            found = f"{module or whole}:{alias.name}"
            if bool(WORKLOAD.match(found)) is of_workload:
                yield found.rpartition(".")[2] if of_workload else found


def names_in(golden: str, collected: Iterable[str]) -> list[str]:
    """Return the names in a golden file, or those collected now to write it."""
    kept = HERE / f"{golden}.txt"
    lines = collected if WRITES else kept.read_text("utf-8").splitlines()
    return sorted({line.partition("(")[0] for line in lines})


def describe(place: str, modules: Iterable[str]) -> str:
    """Return module:name with its parameters; fail if no module has the name."""
    name = place.partition(":")[2]
    found = [held for module in modules if (held := look_up(module, name)) is not None]
    assert found, f"{place} is gone"
    if inspect.isfunction(found[0]) or inspect.isclass(found[0]):
        return f"{place}({', '.join(describe_parameters(found[0]))})"
    return place


def look_up(module: str, name: str) -> Any:
    """Return the attribute or submodule of a module by name, or None."""
    holder = importlib.import_module(module)
    if hasattr(holder, "__path__") and not hasattr(holder, name) and name:
        with suppress(ModuleNotFoundError):
            return importlib.import_module(f"{module}.{name}")
    return getattr(holder, name, None) if name else holder


def modules_called(last: str) -> list[str]:
    """Return the modules and packages within netpipe whose name ends with a word."""
    paths = [path.relative_to(ROOT).with_suffix("") for path in ROOT.glob("netpipe/**/*.py")]
    names = (".".join(path.parts).removesuffix(".__init__") for path in paths)
    return sorted(name for name in names if name.rpartition(".")[2] == last)


def describe_parameters(function: Callable[..., Any]) -> Iterator[str]:
    """Yield each parameter of a function with its default, and each key of typed settings."""
    if getattr(function, "_is_protocol", False):
        return
    for parameter in inspect.signature(function).parameters.values():
        default = "" if parameter.default is parameter.empty else f"={parameter.default!r}"
        if parameter.kind is parameter.VAR_KEYWORD:
            (settings,) = getattr(parameter.annotation, "__args__", [None])
            keys = getattr(settings, "__annotations__", {})
            yield f"**{sorted(keys)}" if keys else "**"
        else:
            yield f"{'*' * (parameter.kind is parameter.KEYWORD_ONLY)}{parameter.name}{default}"


def test_the_names_that_other_code_imports_stay() -> None:
    """Names that documents, examples and templates import keep their parameters."""
    offered = [f"netpipe:{name}" for name in netpipe.__all__]
    names = names_in("imports", [*offered, *collect(PUBLIC, of_workload=False)])
    check_lines("imports", (describe(name, [name.partition(":")[0]]) for name in names))


def test_the_names_of_the_own_workload_stay() -> None:
    """Names that move to netpipe.workload keep their name and their module's last part."""
    names = names_in("moves_to_workload", collect(PUBLIC + OWN, of_workload=True))
    lines = (describe(name, modules_called(name.partition(":")[0])) for name in names)
    check_lines("moves_to_workload", lines)


def test_the_entry_points_stay() -> None:
    """The command, the plugin and the modules run with `python -m` stay."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    entries = {"script": project["scripts"], "pytest11": project["entry-points"]["pytest11"]}
    lines = [f"{kind} {each}" for kind, named in entries.items() for each in named.items()]
    assert is_runnable("netpipe")
    assert any(map(is_runnable, modules_called("maxtext")))
    check_lines("entry_points", lines)


def is_runnable(module: str) -> bool:
    """Return whether a module has a main block."""
    path = ROOT.joinpath(*module.split("."))
    file: Path = path / "__main__.py" if path.is_dir() else path.with_suffix(".py")
    return file.exists() and ("__main__" in str(file) or "__main__" in file.read_text("utf-8"))
