"""Methods of Grain's classes, replaced within a context."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

Method = Callable[..., Any]


def pass_to(replacement: Callable[..., Any]) -> Callable[[Method], Method]:
    """Return a wrapper that passes the original method and its arguments to a replacement."""
    return lambda original: lambda *given, **named: replacement(original, *given, **named)


@contextmanager
def replaced_method(owner: type, name: str, wrapper: Callable[[Method], Method]) -> Iterator[None]:
    """Replace a method by `wrapper(method)` within the context."""
    original, is_own = getattr(owner, name), name in vars(owner)
    setattr(owner, name, wraps(original)(wrapper(original)))
    try:
        yield
    finally:
        if is_own:
            setattr(owner, name, original)
        else:
            delattr(owner, name)
