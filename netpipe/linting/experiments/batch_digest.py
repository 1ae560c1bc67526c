"""Digests that are equal where two batches hold the same, and the size of a batch."""

from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import fields, is_dataclass
from hashlib import blake2b
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from netpipe.errors import HarnessError

_Update = Callable[[bytes], None]

_DIGEST_BYTES: Final = 16
_PLAIN: Final = (bool, int, float, complex, str, bytes, type(None))


class IncomparableError(HarnessError):
    """A batch holds an object whose contents cannot be compared."""


def digest(batch: object) -> bytes:
    """Return 16 bytes that depend only on the contents of a batch.

    Arrays of any library are compared by dtype, shape and bytes, so that a NaN equals itself, dicts
    regardless of the order of their keys, and other objects by what pickle would keep.

    Raises:
        IncomparableError: The batch holds an object that cannot be pickled, or itself.
    """
    hashed = blake2b(digest_size=_DIGEST_BYTES)
    try:
        _feed(hashed.update, batch)
    except RecursionError as error:
        raise IncomparableError(f"a {type(batch).__name__} holds itself") from error
    return hashed.digest()


def element_count(batch: object) -> int:
    """Return how many elements a batch holds: the largest leading dimension of its leaves.

    A list has as many elements as items, since ragged batches are lists; a scalar or an empty batch
    counts as one.
    """
    return max(1, _leading(batch))


def _leading(value: object) -> int:
    if isinstance(value, list):
        return len(value)
    if isinstance(value, Mapping):
        return max(map(_leading, value.values()), default=0)
    if isinstance(value, tuple):
        return max(map(_leading, value), default=0)
    if is_dataclass(value):
        return max((_leading(getattr(value, field.name, ())) for field in fields(value)), default=0)
    shape = getattr(value, "shape", ())
    return int(shape[0]) if shape else 1


def _feed(update: _Update, value: object) -> None:
    if hasattr(value, "__qualname__"):
        _feed_text(update, f"named {value.__module__}.{value.__qualname__}")
    elif hasattr(value, "__array__"):
        _feed_array(update, np.asarray(value))
    elif isinstance(value, _PLAIN):
        _feed_text(update, f"{type(value).__name__} {value!r}")
    elif isinstance(value, Mapping):
        _feed_all(update, "dict", sorted(value.items(), key=lambda item: repr(item[0])))
    elif isinstance(value, Set):
        _feed_all(update, "set", sorted(map(digest, value)))
    elif isinstance(value, list | tuple):
        _feed_all(update, type(value).__name__, value)
    else:
        _feed_object(update, value)


def _feed_text(update: _Update, text: str) -> None:
    # The end is marked: otherwise two texts in a row could equal two others.
    update(text.encode("utf-8", "surrogatepass") + b"\0")


def _feed_all(update: _Update, kind: str, values: Any) -> None:
    _feed_text(update, f"{kind} of {len(values)}")
    for value in values:
        _feed(update, value)


def _feed_array(update: _Update, array: NDArray[Any]) -> None:
    _feed_text(update, f"array {array.dtype!r} {array.shape}")
    if array.dtype.names is not None:
        # Field by field: the padding between fields is not part of the contents.
        for name in array.dtype.names:
            _feed_array(update, array[name])
    elif array.dtype.hasobject:
        for value in array.ravel().tolist():
            _feed(update, value)
    else:
        update(array.tobytes())


def _feed_object(update: _Update, value: object) -> None:
    try:
        reduced = value.__reduce_ex__(2)
    except TypeError as error:
        raise IncomparableError(f"a {type(value).__name__} cannot be compared") from error
    parts = (reduced,) if isinstance(reduced, str) else reduced
    _feed_all(
        update, "object", [list(part) if isinstance(part, Iterator) else part for part in parts]
    )
