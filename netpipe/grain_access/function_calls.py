"""Find the calls in a user's function from its bytecode, without calling or importing anything."""

import builtins
import dis
import os
import re
import sys
from collections import ChainMap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache, partial
from inspect import getattr_static, unwrap
from pathlib import Path
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Final, NamedTuple, TypeGuard, TypeVar

from netpipe.grain_access.nodes import module_name

_T = TypeVar("_T")

_CALLED_BY_GRAIN: Final = (
    "map", "random_map", "np_random_map", "map_with_index", "filter", "flat_map", "__call__",
    "__getitem__", "__iter__",
)  # fmt: skip
_PUT_ON_DEVICE: Final = ("device_put", "make_array_from_")
# Many pipelines use jax only for trees and types, which need no device.
_NEEDS_NO_DEVICE: Final = ("jax.tree", "jax._src.tree", "jax.dtypes", "jax._src.dtypes")
_NEVER_USER_CODE: Final = ("grain", "jax", "jaxlib")
_STANDARD_LIBRARY: Final = Path(os.__file__).parent
_LIBRARIES: Final = {"site-packages", "dist-packages"}


def uses_jax(called: object) -> bool:
    """Return whether a function, or a method that Grain calls, uses jax beyond trees and types.

    All names in its code and in the user's functions that it calls count, even in branches that are
    never taken. A jax class counts only where it is called, which makes an array.
    """
    return any(map(_is_from_jax, _follow_calls(called)))


def puts_on_device(called: object) -> bool:
    """Return whether a function, or method that Grain calls, moves arrays to a device with jax."""
    for value in filter(_is_from_jax, _follow_calls(called)):
        name = value.__name__ if _is(value, FunctionType) else ""
        if _is(value, ModuleType):
            name = _full_name(value).rpartition(".")[2]
        if name.startswith(_PUT_ON_DEVICE):
            return True
    return False


def find_code(called: object) -> CodeType | None:
    """Return the code of the user's function, or of the method that Grain calls, or None."""
    functions = map(_unwrap_function, (called, *_members(called, _CALLED_BY_GRAIN)))
    own = (each for each in functions if _package(_module(each)) not in _NEVER_USER_CODE)
    codes = (getattr(unwrap(each), "__code__", None) for each in own if _is(each, FunctionType))
    return next(codes, None)


def closure_variables(function: object) -> Mapping[str, object]:
    """Return the variables that a function takes from its enclosing functions, by name."""
    variables: dict[str, object] = {}
    if _is(function, FunctionType):
        cells = function.__closure__ or ()
        for name, cell in zip(function.__code__.co_freevars, cells, strict=True):
            # The cell is empty until the enclosing function assigns the variable.
            with suppress(ValueError):
                variables[name] = cell.cell_contents
    return variables


# ---- Kinds of values


def _is(value: object, kind: type[_T]) -> TypeGuard[_T]:
    """Act like `isinstance` without reading `__class__`, which may raise in a proxy."""
    return issubclass(type(value), kind)


def _is_from_jax(value: object) -> bool:
    module = _full_name(value) if _is(value, ModuleType) else _module(value)
    is_jax = _package(module) in ("jax", "jaxlib") and not module.startswith(_NEEDS_NO_DEVICE)
    return is_jax and not _is(value, type)


def _module(value: object) -> str:
    value = _unwrap_function(value)
    if _is(value, FunctionType):
        return str(value.__module__)
    return module_name(value if _is(value, type) else type(value))


def _unwrap_function(value: object) -> object:
    if _is(value, partial):
        return _unwrap_function(value.func)
    return _unwrap_function(value.__func__) if _is(value, MethodType) else value


def _package(module: str) -> str:
    return module.partition(".")[0]


def _is_user_code(value: object, own_package: str) -> bool:
    """Return whether a value is from the user's package, or from a file outside libraries."""
    module = _module(value)
    package = _package(module)
    if package in _NEVER_USER_CODE:
        return False
    if package == own_package:
        return True
    file = getattr(sys.modules.get(module), "__file__", None)
    function = _unwrap_function(value)
    if _is(function, FunctionType):
        file = function.__code__.co_filename
        if file.startswith("<"):
            file = function.__globals__.get("__file__")
    return module == "__main__" if file is None else not _is_in_library(file)


@lru_cache(maxsize=1024)
def _is_in_library(file: str) -> bool:
    path = Path(file)
    return path.is_relative_to(_STANDARD_LIBRARY) or not _LIBRARIES.isdisjoint(path.parts)


# ---- From a function to all values that it names


def _follow_calls(called: object) -> Iterator[object]:
    """Yield `called` and each value named in its code or in the user's functions it calls."""
    # The package of the wrapped function, not that of `functools.cache`.
    own_package = _package(_module(getattr_static(called, "__wrapped__", called)))
    waiting = [called, *_members(called, _CALLED_BY_GRAIN)]
    # Keeps the values too: an id is only unique while its object lives.
    seen: dict[tuple[int, ...], object] = {}
    while waiting:
        value = waiting.pop()
        # Each access to a bound method makes a new object, but its parts stay the same.
        parts = (value.__func__, value.__self__) if _is(value, MethodType) else (value,)
        if (key := tuple(map(id, parts))) in seen:
            continue
        seen[key] = value
        yield value
        waiting.append(getattr_static(value, "__wrapped__", None))
        # Library functions are not followed, except `called`, which may be Grain's wrapper around
        # the user's function.
        is_called = value is called and not _is_from_jax(value)
        if is_called or _is(value, partial) or _is_user_code(value, own_package):
            waiting.extend(_values_named_by(value, own_package))


def _values_named_by(value: object, own_package: str) -> Iterator[object]:
    if _is(value, partial):
        yield from (value.func, *value.args, *value.keywords.values())
        yield from _members(value.func, ("__call__",))
    elif _is(value, MethodType) and _is(value.__func__, FunctionType):
        yield value.__func__
        yield from _members(value.__self__, _attribute_names(value.__func__.__code__))
    elif _is(value, FunctionType):
        for named in _find_loaded_values(value):
            yield named
            if _is_user_code(named if _is(named, type) else type(named), own_package):
                yield from _members(named, _attribute_names(value.__code__))


def _members(owner: object, names: Iterable[str]) -> Iterator[object]:
    """Yield some attributes of an object, not evaluated; functions are bound to the object."""
    if issubclass(type(owner), FunctionType | MethodType | ModuleType | partial):
        return
    for name in names:
        inherited = (vars(kind).get(name) for kind in type(owner).__mro__)
        for member in (getattr_static(owner, name, None), *inherited):
            function = member.fget if _is(member, property) else member
            if _is(function, staticmethod) or _is(function, classmethod):
                function = function.__func__
            yield MethodType(function, owner) if _is(function, FunctionType) else member


# ---- Values that a function's code loads

_ATTRIBUTES: Final = ("LOAD_ATTR", "LOAD_METHOD")
_IGNORED: Final = ("EXTENDED_ARG", "KW_NAMES", "PRECALL", "PUSH_NULL")
# Unlike getattr, this does not trigger the import of a lazy module.
_namespace: Final = ModuleType.__getattribute__


class _Operation(NamedTuple):
    """One bytecode operation; a call starts where the called expression starts."""

    name: str
    argument: object
    start: tuple[int | None, int | None]


def _find_loaded_values(function: FunctionType) -> Iterator[object]:
    """Yield the values that a function's code loads by name, including attributes of modules."""
    imported: dict[str, object] = {}
    known = ChainMap(imported, function.__globals__, vars(builtins))
    scopes = {
        "LOAD_GLOBAL": known,
        "LOAD_NAME": known,
        "LOAD_DEREF": ChainMap(imported, dict(closure_variables(function))),
        "LOAD_FAST": imported,
    }
    for code in _nested_codes(function.__code__):
        operations = _operations(code)
        imported |= _find_imported_names(operations, str(function.__globals__.get("__package__")))
        yield from _evaluate(operations, scopes)


def _find_imported_names(operations: Sequence[_Operation], package: str) -> Mapping[str, object]:
    """Return the values that imports bind, by name; an empty module for one not yet imported."""
    imported: dict[str, object] = {}
    module: object = None
    value: object = None
    for level, names, operation in zip(operations, operations[1:], operations[2:], strict=False):
        name = str(operation.argument)
        if operation.name == "IMPORT_NAME":
            if _is(level.argument, int) and level.argument > 0:
                parent = package.rsplit(".", level.argument - 1)[0]
                name = f"{parent}.{name}".rstrip(".")
            value = module = _find_module(name if names.argument else _package(name))
        elif operation.name == "IMPORT_FROM" and _is(module, ModuleType):
            value = _get_from_module(module, name)
        elif operation.name == "SWAP":  # `import a.b.c as name` continues from b
            module = value
        elif operation.name.startswith("STORE_") and value is not None:
            imported[name], value = value, None
    return imported


def _evaluate(
    operations: Sequence[_Operation], scopes: Mapping[str, Mapping[str, object]]
) -> Iterator[object]:
    calls = {operation.start for operation in operations if operation.name.startswith("CALL")}
    loaded: object = None
    start: object = None
    for operation in operations:
        name = str(operation.argument)
        if operation.name in _ATTRIBUTES and _is(loaded, ModuleType):
            loaded = _get_from_module(loaded, name)
            continue
        if loaded is not None:
            yield loaded
            if start in calls and operation.name not in _ATTRIBUTES:
                yield from _members(loaded, ("__call__",))
        start = operation.start
        loaded = scopes.get(operation.name, {}).get(name)


def _get_from_module(module: ModuleType, name: str) -> object:
    value = _namespace(module, "__dict__").get(name)
    return _find_module(f"{_full_name(module)}.{name}") if value is None else value


def _find_module(name: str) -> object:
    """Return a module if it is imported, otherwise an empty module of that name."""
    return sys.modules.get(name, ModuleType(name))


def _full_name(module: ModuleType) -> str:
    return str(_namespace(module, "__dict__").get("__name__"))


@lru_cache(maxsize=1024)  # many nodes lead to the same functions
def _operations(code: CodeType) -> tuple[_Operation, ...]:
    operations: list[_Operation] = []
    for instruction in dis.get_instructions(code):
        position = instruction.positions or dis.Positions()
        start = (position.lineno, position.col_offset)
        name, argument = instruction.opname, instruction.argval
        pair = re.findall("(?:LOAD|STORE)_FAST", name)
        if len(pair) == 2:  # Python 3.13 combines two operations: STORE_FAST_LOAD_FAST
            operations += map(_Operation, pair, argument, (start, start))
        elif name not in _IGNORED:
            operations.append(_Operation(name.removesuffix("_CHECK"), argument, start))
    return tuple(operations)


def _nested_codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _nested_codes(constant)


def _attribute_names(code: CodeType) -> Iterator[str]:
    return (name for nested in _nested_codes(code) for name in nested.co_names)
