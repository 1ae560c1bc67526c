"""Digests of batches."""

from collections import namedtuple
from dataclasses import dataclass
from pickle import dumps, loads
from threading import Lock
from typing import Any

import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

from netpipe.errors import HarnessError
from netpipe.grain_access.batch_digests import digest, digest_rows

Pair = namedtuple("Pair", ["left", "right"])


@dataclass
class Example:
    """A user's own class of batch."""

    tokens: Any
    name: str = ""


class BrainFloats:
    """A tensor of torch.bfloat16, which NumPy cannot read."""

    dtype, shape = "torch.bfloat16", (2,)

    def __init__(self, *values: float) -> None:
        self._values = values

    def __array__(self, *_: object) -> Any:
        raise TypeError("Got unsupported ScalarType BFloat16")

    def float(self) -> Any:
        """Return the same numbers in single precision."""
        return np.array(self._values, np.float32)


class Slotted:
    """An object without a dict."""

    __slots__ = ("value",)

    def __init__(self, value: object) -> None:
        self.value = value


PADDED = np.dtype([("small", "i1"), ("large", "i8")], align=True)

DIFFERENT: list[tuple[object, object]] = [
    (np.arange(3), np.arange(4)),
    (np.zeros(6), np.zeros((2, 3))),
    (np.zeros(3, "i4"), np.zeros(3, "f4")),
    (np.zeros(2, "f2"), np.zeros(2, ml_dtypes.bfloat16)),
    (np.array([0.0]), np.array([-0.0])),
    (np.array(["a", "b"]), np.array(["a", "c"])),
    (np.array(["a", [1]], object), np.array(["a", [2]], object)),
    (np.array([(1, 2)], PADDED), np.array([(1, 3)], PADDED)),
    ({"a": 1}, {"b": 1}),
    ({"a": [np.arange(2), np.arange(3)]}, {"a": [np.arange(3), np.arange(2)]}),
    ([1, 2], (1, 2)),
    (["ab", "c"], ["a", "bc"]),
    ([[1], 2], [[1, 2]]),
    ("1", 1),
    (1, True),
    (b"x", "x"),
    (None, 0),
    ({1, 2}, {1, 3}),
    (Pair(1, 2), Pair(1, 3)),
    (Example(np.zeros(2)), Example(np.ones(2))),
    (Example(np.zeros(2), "a"), Example(np.zeros(2), "b")),
    (Slotted(1), Slotted(2)),
    (jnp.zeros(2), jnp.ones(2)),
    (int, float),
    ({"a": np.ones(2)}, {"a": np.ones(2), "b": np.ones(2)}),
    (np.ones(2, "i4"), np.ones(2, "u4")),
    (BrainFloats(1.0, 2.0), BrainFloats(1.0, 3.0)),
    (BrainFloats(1.0, 2.0), np.array([1.0, 2.0], np.float32)),
]


@pytest.mark.parametrize(("batch", "other"), DIFFERENT)
def test_different_contents_differ(batch: object, other: object) -> None:
    """Any difference in values, types or shapes shows; a copy that was sent has the same digest."""
    assert digest(batch) != digest(other)
    assert digest(batch) == digest(loads(dumps(batch)))
    assert digest(other) == digest(loads(dumps(other)))


def test_equal_contents_are_equal() -> None:
    """The order of a dict, the layout of an array, NaN, padding and sharing make no difference."""
    assert digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1})
    grid = np.arange(6, dtype=np.int32).reshape(2, 3)
    assert digest(grid.T) == digest(grid.T.copy())
    assert digest(np.array([np.nan])) == digest(np.array([np.nan]))
    assert digest(np.float32(1)) == digest(np.array(1, np.float32))
    assert digest(grid) == digest(jnp.asarray(grid))
    shared = "a" * 3
    assert digest([Slotted(shared), Slotted(shared)]) == digest(
        [Slotted("".join(["aa", "a"])), Slotted("".join(["a", "aa"]))]
    )
    padded = np.frombuffer(bytes(range(32)), PADDED).copy()
    cleared = np.zeros(2, PADDED)
    cleared["small"], cleared["large"] = padded["small"], padded["large"]
    assert digest(padded) == digest(cleared)


def test_rows_of_tensors_have_digests() -> None:
    """Each row is told apart from the others."""
    first, second = digest_rows({"x": BrainFloats(1.0, 2.0)})
    assert first != second
    assert digest(BrainFloats(1.0, 2.0)) == digest(np.array([1.0, 2.0], ml_dtypes.bfloat16))


def test_an_object_without_visible_contents_is_refused() -> None:
    """An object that hides its contents, or holds itself, is named."""
    with pytest.raises(HarnessError, match=r"cannot be compared: .*\block\b"):
        digest({"lock": Lock()})
    endless: list[object] = []
    endless.append(endless)
    with pytest.raises(HarnessError, match="list cannot be compared"):
        digest(endless)
