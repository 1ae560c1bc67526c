"""What a user's function calls, as far as its code tells. Nothing is called or imported."""

import dis
from collections.abc import Iterator, Mapping
from functools import lru_cache, partial
from inspect import getattr_static
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Final

_CALLED_BY_GRAIN: Final = (
    "map",
    "random_map",
    "np_random_map",
    "map_with_index",
    "filter",
    "flat_map",
    "__call__",
    "__getitem__",
    "__iter__",
)
_PUT_ON_DEVICE: Final = ("device_put", "make_array_from_")
# Handling trees needs no device, and it is what many pipelines use jax for.
_NEEDS_NO_DEVICE: Final = ("jax.tree", "jax._src.tree")


def uses_jax(called: object) -> bool:
    """Whether a function, or what Grain calls of an object, uses jax for more than trees.

    Found by the names in the code, that of the functions which it calls in its own package
    included. That a branch is never taken is not seen. An import of jax within is a use of it.
    """
    return any(_is_of_jax(value) for value in _reached(called))


def puts_on_device(called: object) -> bool:
    """Whether a function, or what Grain calls of an object, moves arrays to a device by jax."""
    return any(
        name.startswith(_PUT_ON_DEVICE) for value in _reached(called) for name in _names(value)
    )


def enclosed(function: object) -> Mapping[str, object]:
    """Return what a function made within another takes from there, by name."""
    if not isinstance(function, FunctionType):
        return {}
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    return {name: _content(cell) for name, cell in cells}


def _is_of_jax(value: object) -> bool:
    module = value.__name__ if isinstance(value, ModuleType) else _module(value)
    return _package(module) in ("jax", "jaxlib") and not module.startswith(_NEEDS_NO_DEVICE)


def _names(value: object) -> tuple[str, ...]:
    """Return a jax function's own name, or those in the code of another function."""
    if not isinstance(value, FunctionType):
        return ()
    return (value.__name__,) if _is_of_jax(value) else tuple(_names_in(value.__code__))


def _module(value: object) -> str:
    """Return the module of a function or a class, or that of an object's class."""
    if isinstance(value, partial | MethodType):
        return _module(value.func if isinstance(value, partial) else value.__func__)
    return str((value if isinstance(value, FunctionType | type) else type(value)).__module__)


def _package(module: str) -> str:
    return module.partition(".")[0]


# ---- From a function to all that it names


def _reached(called: object) -> Iterator[object]:
    """Yield what is called and all that its code names, on through functions of its package."""
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
        if is_called or isinstance(value, partial) or _is_users(value, own):
            waiting.extend(_named_by(value, own))


def _innermost(value: object) -> object:
    """Return what a decorator such as `functools.cache` was put around."""
    wrapped = getattr_static(value, "__wrapped__", None)
    return value if wrapped is None else _innermost(wrapped)


def _is_users(value: object, own: str) -> bool:
    return _package(_module(value)) == own and own not in ("grain", "jax", "jaxlib")


def _key(value: object) -> tuple[int, ...]:
    """Tell values apart; a bound method is made anew each time, its parts are not."""
    parts = (value.__func__, value.__self__) if isinstance(value, MethodType) else (value,)
    return tuple(map(id, parts))


def _named_by(value: object, own: str) -> Iterator[object]:
    if isinstance(value, partial):
        yield from (value.func, *value.args, *value.keywords.values())
    elif isinstance(value, MethodType) and isinstance(value.__func__, FunctionType):
        yield value.__func__
        yield from _members(value.__self__, _names_in(value.__func__.__code__))
    elif isinstance(value, FunctionType):
        for named in _loaded_by(value):
            yield named
            if _package(type(named).__module__) == own:
                yield from _members(named, _names_in(value.__code__))


def _members(owner: object, names: Iterator[str] | tuple[str, ...]) -> Iterator[object]:
    """Yield an object's attributes of these names, methods as bound to it; none is evaluated."""
    if isinstance(owner, FunctionType | MethodType | ModuleType | partial):
        return
    for name in names:
        inherited = (vars(kind).get(name) for kind in type(owner).__mro__)
        for member in (getattr_static(owner, name, None), *inherited):
            function = _function_of(member)
            yield member if function is None else MethodType(function, owner)


def _function_of(member: object) -> FunctionType | None:
    if isinstance(member, property):
        member = member.fget
    if isinstance(member, staticmethod | classmethod):
        member = member.__func__
    return member if isinstance(member, FunctionType) else None


def _loaded_by(function: FunctionType) -> Iterator[object]:
    scopes = {
        "LOAD_GLOBAL": function.__globals__,
        "LOAD_NAME": function.__globals__,
        "LOAD_DEREF": enclosed(function),
    }
    for code in _codes(function.__code__):
        yield from _loads(code, scopes)


def _content(cell: object) -> object:
    try:
        return getattr(cell, "cell_contents", None)
    except ValueError:  # a name that is bound later than the function is made
        return None


def _loads(code: CodeType, scopes: Mapping[str, Mapping[str, object]]) -> Iterator[object]:
    """Yield what code takes from outside by name; of a module, what it takes from that."""
    loaded: object = None
    for operation, name in _operations(code):
        if isinstance(loaded, ModuleType) and operation in ("LOAD_ATTR", "LOAD_METHOD"):
            loaded = vars(loaded).get(name, loaded)
            continue
        if loaded is not None:
            yield loaded
        scope = scopes.get(operation)
        loaded = None if scope is None else scope.get(name)
        if operation == "IMPORT_NAME":
            loaded = ModuleType(name)


@lru_cache(maxsize=1024)  # the same functions are followed from many nodes, and taken apart once
def _operations(code: CodeType) -> tuple[tuple[str, str], ...]:
    return tuple((one.opname, str(one.argval)) for one in dis.get_instructions(code))


def _codes(code: CodeType) -> Iterator[CodeType]:
    """Yield a function's code and that of the functions made within it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _names_in(code: CodeType) -> Iterator[str]:
    for one in _codes(code):
        yield from one.co_names
