"""What a user's function calls, as far as its code tells. Nothing is called or imported."""

import builtins
import dis
import importlib
import os
import re
import sys
from collections import ChainMap
from collections.abc import Iterator, Mapping
from functools import lru_cache, partial
from inspect import getattr_static
from pathlib import Path
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Final, NamedTuple, TypeGuard, TypeVar

_T = TypeVar("_T")

_CALLED_BY_GRAIN: Final = (
    *("map", "random_map", "np_random_map", "map_with_index", "filter", "flat_map"),
    *("__call__", "__getitem__", "__iter__"),
)
_PUT_ON_DEVICE: Final = ("device_put", "make_array_from_")
# Handling trees and types needs no device, and it is what many pipelines use jax for.
_NEEDS_NO_DEVICE: Final = ("jax.tree", "jax._src.tree", "jax.dtypes", "jax._src.dtypes")
_NEVER_THE_USERS: Final = ("grain", "jax", "jaxlib")
_STANDARD_LIBRARY: Final = Path(os.__file__).parent
_LIBRARIES: Final = {"site-packages", "dist-packages"}


def uses_jax(called: object) -> bool:
    """Whether a function, or what Grain calls of an object, uses jax for more than trees or types.

    Found by the names in the code, that of the user's functions which it calls included. That a
    branch is never taken is not seen. A class of jax is used where it is called to make an array.
    """
    return any(_is_of_jax(value) for value in _reached(called))


def puts_on_device(called: object) -> bool:
    """Whether a function, or what Grain calls of an object, moves arrays to a device by jax."""
    return any(
        _is_of_jax(value) and _own_name(value).startswith(_PUT_ON_DEVICE)
        for value in _reached(called)
    )


def closure_variables(function: object) -> Mapping[str, object]:
    """Return what a function made within another takes from there, by name."""
    if not _is(function, FunctionType):
        return {}
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    return {name: _content(cell) for name, cell in cells}


# ---- What a value is


def _is(value: object, kind: type[_T]) -> TypeGuard[_T]:
    """Tell as `isinstance` does, without asking the value: a proxy may raise when it is asked."""
    return issubclass(type(value), kind)


def _is_of_jax(value: object) -> bool:
    """Whether it is a module, a function or an object of jax; the name of a class is no use."""
    module = _full_name(value) if _is(value, ModuleType) else _module(value)
    is_jaxs = _package(module) in ("jax", "jaxlib") and not module.startswith(_NEEDS_NO_DEVICE)
    return is_jaxs and not _is(value, type)


def _own_name(value: object) -> str:
    """Return the name of a function, or of what is known by its name alone."""
    if _is(value, FunctionType):
        return value.__name__
    return _full_name(value).rpartition(".")[2] if _is(value, ModuleType) else ""


def _module(value: object) -> str:
    """Return the module of a function or a class, or that of an object's class."""
    if _is(value, partial):
        return _module(value.func)
    if _is(value, MethodType):
        return _module(value.__func__)
    if _is(value, FunctionType):
        return str(value.__module__)
    # A class may hide it behind a property, or its metaclass may.
    kind = value if _is(value, type) else type(value)
    return str(type.__dict__["__module__"].__get__(kind))


def _package(module: str) -> str:
    return module.partition(".")[0]


def _is_users(value: object, own: str) -> bool:
    """Whether the user wrote it: in the same package, or in a file that no library has."""
    module = _module(value)
    if _package(module) in _NEVER_THE_USERS:
        return False
    file = _file(value, module)
    return _package(module) == own or (module == "__main__" if file is None else _is_loose(file))


def _file(value: object, module: str) -> str | None:
    if _is(value, MethodType):
        return _file(value.__func__, module)
    if not _is(value, FunctionType):
        return getattr(sys.modules.get(module), "__file__", None)
    file = value.__code__.co_filename
    return value.__globals__.get("__file__") if file.startswith("<") else file


@lru_cache(maxsize=1024)
def _is_loose(file: str) -> bool:
    """Whether a file is in no library."""
    path = Path(file)
    return _LIBRARIES.isdisjoint(path.parts) and not path.is_relative_to(_STANDARD_LIBRARY)


# ---- From a function to all that it names


def _reached(called: object) -> Iterator[object]:
    """Yield what is called and all that its code names, on through the functions of the user."""
    own = _package(_module(_innermost(called)))
    waiting = [called, *_members(called, _CALLED_BY_GRAIN)]
    seen: dict[tuple[int, ...], object] = {}  # values too: ids are theirs while they live
    while waiting:
        value = waiting.pop()
        if _key(value) in seen:
            continue
        seen[_key(value)] = value
        yield value
        waiting.append(getattr_static(value, "__wrapped__", None))
        # A library's own functions are not followed, but the one that is called may be Grain's
        # around the user's.
        is_called = value is called and not _is_of_jax(value)
        if is_called or _is(value, partial) or _is_users(value, own):
            waiting.extend(_named_by(value, own))


def _innermost(value: object) -> object:
    """Return what decorators such as `functools.cache` were put around."""
    seen: set[int] = set()
    while id(value) not in seen:
        seen.add(id(value))
        wrapped = getattr_static(value, "__wrapped__", None)
        value = value if wrapped is None else wrapped
    return value


def _key(value: object) -> tuple[int, ...]:
    """Tell values apart; a bound method is made anew each time, its parts are not."""
    return (id(value.__func__), id(value.__self__)) if _is(value, MethodType) else (id(value),)


def _named_by(value: object, own: str) -> Iterator[object]:
    if _is(value, partial):
        yield from (value.func, *value.args, *value.keywords.values())
        yield from _members(value.func, ("__call__",))
    elif _is(value, MethodType) and _is(value.__func__, FunctionType):
        yield value.__func__
        yield from _members(value.__self__, _names_in(value.__func__.__code__))
    elif _is(value, FunctionType):
        for named in _Loads(value).all():
            yield named
            if _is_users(named if _is(named, type) else type(named), own):
                yield from _members(named, _names_in(value.__code__))


def _members(owner: object, names: Iterator[str] | tuple[str, ...]) -> Iterator[object]:
    """Yield an object's attributes of these names, methods as bound to it; none is evaluated."""
    if issubclass(type(owner), FunctionType | MethodType | ModuleType | partial):
        return
    for name in names:
        inherited = (vars(kind).get(name) for kind in type(owner).__mro__)
        for member in (getattr_static(owner, name, None), *inherited):
            function = _function_of(member)
            yield member if function is None else MethodType(function, owner)


def _function_of(member: object) -> FunctionType | None:
    if _is(member, property):
        member = member.fget
    if _is(member, staticmethod) or _is(member, classmethod):
        member = member.__func__
    return member if _is(member, FunctionType) else None


def _content(cell: object) -> object:
    try:
        return getattr(cell, "cell_contents", None)
    except ValueError:  # a name that is bound later than the function is made
        return None


# ---- What code takes from outside

_ATTRIBUTES: Final = ("LOAD_ATTR", "LOAD_METHOD")
_SAYS_NOTHING: Final = ("EXTENDED_ARG", "KW_NAMES", "PRECALL", "PUSH_NULL")
_namespace: Final = ModuleType.__getattribute__  # loads no module that loads itself lazily
_IMPORTERS: Final = (builtins.__import__, importlib.import_module)


class _Operation(NamedTuple):
    name: str
    argument: object
    start: tuple[int | None, int | None]  # line and column, which a call shares with what it calls


class _Loads:
    """What a function's code loads by name; of a module, what it takes from that."""

    def __init__(self, function: FunctionType) -> None:
        self._function = function
        self._imported: dict[str, object] = {}  # by the function itself, when it is called
        self._to_be_called: object = None  # the module that a call of an importer gives
        known = ChainMap(self._imported, function.__globals__, vars(builtins))
        self._scopes: Mapping[str, Mapping[str, object]] = {
            "LOAD_GLOBAL": known,
            "LOAD_NAME": known,
            "LOAD_DEREF": ChainMap(self._imported, dict(closure_variables(function))),
            "LOAD_FAST": self._imported,
        }

    def all(self) -> Iterator[object]:
        """Yield it for the function's code and for that of the functions made within it."""
        for code in _codes(self._function.__code__):
            operations = _operations(code)
            self._import(operations)
            yield from self._of(operations)

    def _of(self, operations: tuple[_Operation, ...]) -> Iterator[object]:
        calls = {one.start for one in operations if one.name.startswith("CALL")}
        loaded: object = None
        start: object = None
        for one in operations:
            if one.name in _ATTRIBUTES and _is(loaded, ModuleType):
                loaded = _taken(loaded, str(one.argument))
                continue
            if loaded is not None:
                yield loaded
                if start in calls and one.name not in _ATTRIBUTES:
                    yield from _members(loaded, ("__call__",))
            loaded, start = self._loaded(one, loaded), one.start

    def _loaded(self, operation: _Operation, before: object) -> object:
        name = str(operation.argument)
        if operation.name.startswith("CALL"):
            module, self._to_be_called = self._to_be_called, None
            return module
        if operation.name == "LOAD_CONST" and any(before is one for one in _IMPORTERS):
            self._to_be_called = _module_named(name)
        return self._scopes.get(operation.name, {}).get(name)

    def _import(self, operations: tuple[_Operation, ...]) -> None:
        """Note what `import` statements bind, as far as it is imported already."""
        module: object = None
        value: object = None
        for level, names, one in zip(operations, operations[1:], operations[2:], strict=False):
            name = str(one.argument)
            if one.name == "IMPORT_NAME":
                whole = self._absolute(name, level.argument)
                value = module = _module_named(whole if names.argument else _package(whole))
            elif one.name == "IMPORT_FROM" and _is(module, ModuleType):
                value = _taken(module, name)
            elif one.name == "SWAP":  # `import a.b.c as name` goes on from b
                module = value
            elif one.name.startswith("STORE_") and value is not None:
                self._imported[name], value = value, None

    def _absolute(self, name: str, level: object) -> str:
        if not _is(level, int) or level == 0:
            return name
        package = str(self._function.__globals__.get("__package__")).rsplit(".", level - 1)[0]
        return f"{package}.{name}".rstrip(".")


def _taken(module: ModuleType, name: str) -> object:
    value = _namespace(module, "__dict__").get(name)
    return _module_named(f"{_full_name(module)}.{name}") if value is None else value


def _module_named(name: str) -> object:
    """Return a module that is imported; in place of another, one that has its name alone."""
    return sys.modules.get(name, ModuleType(name))


def _full_name(module: ModuleType) -> str:
    return str(_namespace(module, "__dict__").get("__name__"))


@lru_cache(maxsize=1024)  # the same functions are followed from many nodes, and taken apart once
def _operations(code: CodeType) -> tuple[_Operation, ...]:
    return tuple(part for one in dis.get_instructions(code) for part in _parts_of(one))


def _parts_of(instruction: dis.Instruction) -> Iterator[_Operation]:
    """Yield an instruction, or both that Python 3.13 has made one: STORE_FAST_LOAD_FAST."""
    place = instruction.positions or dis.Positions()
    start = (place.lineno, place.col_offset)
    names = re.findall("(?:LOAD|STORE)_FAST", instruction.opname)
    if len(names) == 2:
        yield from map(_Operation, names, instruction.argval, (start, start))
    elif instruction.opname not in _SAYS_NOTHING:
        yield _Operation(instruction.opname.removesuffix("_CHECK"), instruction.argval, start)


def _codes(code: CodeType) -> Iterator[CodeType]:
    """Yield a function's code and that of the functions made within it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _names_in(code: CodeType) -> Iterator[str]:
    for one in _codes(code):
        yield from one.co_names
