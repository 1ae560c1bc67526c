"""Finds the functions of a repository that make its pipeline, step and loop, by syntax alone."""

import ast
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple
from warnings import catch_warnings

_MAKERS: Final = {"to_iter_dataset", "mp_prefetch", "MapDataset", "IterDataset", "DataLoader"}
_LOADER_CLASS: Final = re.compile(r"[A-Z]\w*(Loader|Dataset|Pipeline|Iterator)")
_STEP: Final = re.compile(r"(^|_)step(_fn)?$|Step$")
_YIELD: Final = "yield"
_CONSUMERS: Final = {"all", "any", "len", "max", "min", "next", "print", "sum", "type"}
_OTHER_CODE: Final = re.compile(
    r"\..*|build|dist|node_modules|perf|site-packages|tests?|test_.*|conftest\.py"
)


class Candidate(NamedTuple):
    """A top-level name that makes a pipeline, any obstacle to using it, and the names it uses."""

    target: str
    name: str
    obstacle: str
    uses: set[str]


def find_candidates(folder: Path) -> list[Candidate]:
    """Return the names in a repository's Python files that make pipelines.

    Other iterables and generators count only if no candidate uses Grain or a `DataLoader`.
    """
    trees = dict(_parse_files(folder))
    iterables = {_YIELD}.union(*map(_list_iterables, trees.values()))
    return _follow(trees, _MAKERS) or _follow(trees, iterables)


def _follow(trees: dict[str, ast.Module], names: set[str]) -> list[Candidate]:
    makers, found = set[str](), list[Candidate]()
    # A function that returns the result of a maker is a maker too.
    while not names <= makers:
        makers |= names
        found = [each for path in trees for each in _list_candidates(path, trees[path], makers)]
        names = {each.name for each in found}
    return found


def _list_iterables(tree: ast.Module) -> set[str]:
    """Return the names of classes with an `__iter__`, and names that end like those of loaders."""
    classes = (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    iterable = {
        node.name for node in classes if "__iter__" in {getattr(b, "name", "") for b in node.body}
    }
    return iterable | set(filter(_LOADER_CLASS.fullmatch, _list_names(tree)))


def sort_functions(folder: Path) -> dict[str, list[str]]:
    """Return the functions by role: those like a step's factory, like a loop, and others."""
    found: dict[str, list[str]] = {"state_and_step": [], "loop": [], "other": []}
    for path, tree in _parse_files(folder):
        for node in (each for each in tree.body if isinstance(each, ast.FunctionDef)):
            match [argument.arg for argument in _list_required(node)]:
                case []:
                    role = "state_and_step" if _returns_step(node) else "other"
                    found[role].append(f"{path}:{node.name}")
                case [batches, state, step] if "state" in state and "step" in step:
                    # A function that saves or logs has such arguments too.
                    loops = (each for each in ast.walk(node) if isinstance(each, ast.For))
                    if any(batches in _list_names(loop.iter) for loop in loops):
                        found["loop"].append(f"{path}:{node.name}")
    return found


def _returns_step(function: ast.FunctionDef) -> bool:
    """Return whether a function returns a pair whose second part has "step" in its name."""
    for node in ast.walk(function):
        match node:
            case ast.Return(value=ast.Tuple(elts=[_, second])):
                return any(map(_STEP.search, _list_names(second)))
    return False


def _parse_files(folder: Path) -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(folder.rglob("*.py")):
        place = path.relative_to(folder)
        if not any(map(_OTHER_CODE.fullmatch, place.parts)):
            with suppress(OSError, SyntaxError, ValueError):  # Python could not import it either.
                with catch_warnings(action="ignore"):
                    tree = ast.parse(path.read_bytes())
                yield str(place), tree


def _list_candidates(path: str, tree: ast.Module, makers: set[str]) -> Iterator[Candidate]:
    for node in tree.body:
        match node:
            case ast.FunctionDef(name=name) if _makes_pipeline(node, makers):
                yield Candidate(f"{path}:{name}", name, find_obstacle(node), _list_names(node))
            case ast.Assign(targets=[ast.Name(name)], value=value) if makers & _list_names(value):
                obstacle = "is made on import: move it into a function that returns it"
                yield Candidate(f"{path}:{name}", name, obstacle, set())


def _list_names(node: ast.AST) -> set[str]:
    found = (getattr(inner, "id", getattr(inner, "attr", None)) for inner in ast.walk(node))
    return {name for name in found if name}


def _list_kept(node: ast.AST) -> set[str]:
    """Return the names in an expression, except those that a call such as `next` uses up."""
    found, waiting = set[str](), [node]
    while waiting:
        match waiting.pop():
            case ast.Call(func=ast.Name(name)) if name in _CONSUMERS:
                pass
            case inner:
                found.add(getattr(inner, "id", getattr(inner, "attr", None)) or "")
                waiting += ast.iter_child_nodes(inner)
    return found


def _makes_pipeline(function: ast.FunctionDef, makers: set[str]) -> bool:
    """Return whether a function returns the result of a maker, or is a generator that uses one."""
    made, results = set(makers), set[str]()
    # Walk twice: inner blocks come last, but outer blocks may use their names.
    for node in [*ast.walk(function)] * 2:
        match node:
            case (
                ast.Assign(targets=[ast.Name(name)], value=ast.AST() as value)
                | ast.AnnAssign(target=ast.Name(name), value=ast.AST() as value)
            ) if made & _list_kept(value):
                made.add(name)
            case ast.Return(value=ast.AST() as value):
                results |= _list_kept(value)
            # A decorator such as `contextmanager` turns a generator into something else.
            case ast.Yield() | ast.YieldFrom() if not function.decorator_list:
                results |= {_YIELD, *_list_names(function)}
    return bool(made & results)


def _list_required(function: ast.FunctionDef) -> list[ast.arg]:
    """Return the parameters without defaults, which a call must pass."""
    given = function.args
    positional = [*given.posonlyargs, *given.args]
    needed = positional[: len(positional) - len(given.defaults)]
    return needed + [a for a, default in zip(given.kwonlyargs, given.kw_defaults) if not default]  # noqa: B905


def find_obstacle(function: ast.FunctionDef) -> str:
    """Return why a function cannot be called without arguments; "" if it can."""
    names = ", ".join(argument.arg for argument in _list_required(function))
    return names and f"needs {names}: write a function without arguments that calls it"
