"""Digests of batches, which are equal for equal contents."""

from collections.abc import Mapping, Set
from hashlib import blake2b
from io import BytesIO
from pickle import HIGHEST_PROTOCOL, Pickler
from typing import Any, Final

import jax
import numpy as np

from netpipe.errors import HarnessError, MisuseError, describe_error

_DIGEST_BYTES: Final = 16


def digest(batch: object) -> bytes:
    """Return 16 bytes that depend only on the contents of a batch.

    Arrays of any library are compared by dtype, shape and bytes, so that a NaN equals itself; dicts
    regardless of the order of their keys; and other objects by their pickles.

    Raises:
        HarnessError: The batch contains itself, or an object that cannot be pickled.
    """
    contents = BytesIO()
    pickler = _ContentsPickler(contents, HIGHEST_PROTOCOL)
    # Without a memo, an object that occurs twice is written like two equal objects.
    pickler.fast = True
    try:
        pickler.dump(batch)
    except Exception as error:
        what = f"a batch of type {type(batch).__name__} cannot be compared"
        raise HarnessError(f"{what}: {describe_error(error)}") from error
    return blake2b(contents.getbuffer(), digest_size=_DIGEST_BYTES).digest()


def digest_rows(batch: object) -> list[bytes]:
    """Return a digest of each row of a batch: the entries of all its arrays at one index.

    Raises:
        MisuseError: The leaves of the batch are not arrays of one length.
    """
    leaves = jax.tree_util.tree_leaves(batch)
    lengths = {tuple(getattr(leaf, "shape", ())[:1]) for leaf in leaves}
    if len(lengths) != 1 or () in lengths:
        constraint = "all leaves of a batch must be arrays of one length, or key must name its rows"
        raise MisuseError(f"{constraint}; found {sorted(lengths) or 'none'}")
    # Indexing an array of jax takes a hundred times as long.
    return list(map(digest, zip(*map(_as_array, leaves), strict=True)))


def _as_array(array: Any) -> Any:
    if str(getattr(array, "dtype", "")) == "torch.bfloat16":  # torch cannot convert it
        return np.asarray(array.float()).astype(jax.numpy.bfloat16)
    return np.asarray(array)


class _ContentsPickler(Pickler):
    """A pickler that writes the same bytes for equal contents."""

    def persistent_id(self, obj: Any) -> object:
        """Return a replacement for an object whose pickle depends on more than its contents."""
        if isinstance(obj, type):
            return None
        if hasattr(obj, "__array__"):
            array = _as_array(obj)
            contents: object = array.tobytes()
            if array.dtype.names is not None:
                # The padding between fields is not part of the contents.
                contents = [array[name] for name in array.dtype.names]
            elif array.dtype.hasobject:
                contents = array.ravel().tolist()
            return repr(array.dtype), array.shape, contents
        if isinstance(obj, Mapping):
            return "dict", sorted(obj.items(), key=lambda item: repr(item[0]))
        return ("set", sorted(map(digest, obj))) if isinstance(obj, Set) else None
