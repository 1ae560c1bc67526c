"""Digests of batches."""

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from netpipe.linting.experiments.loader_runs import digest

ONES = np.ones((2, 3), np.int32)


@pytest.mark.parametrize(
    "other",
    [
        {"tokens": ONES, "more": ONES},
        {"other": ONES},
        {"tokens": ONES.astype(np.int64)},
        {"tokens": ONES.view(np.uint32)},
        {"tokens": ONES.reshape(3, 2)},
        {"tokens": np.array([[1, 1, 1], [1, 1, 2]], np.int32)},
        {"tokens": [ONES]},
        {},
    ],
)
def test_other_batches_have_other_digests(other: Any) -> None:
    """Another leaf, name, dtype, shape, value or structure makes another digest."""
    assert digest(other) != digest({"tokens": ONES})


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (ONES, jnp.asarray(ONES)),
        (ONES, np.asfortranarray(ONES)),
        (["ab", "ab"], ["".join("ab"), "ab"]),
        (np.array(["ab", "ab"], object), np.array(["".join("ab"), "ab"], object)),
        (b"a\0", b"a\0"),
    ],
)
def test_equal_batches_have_equal_digests(one: Any, other: Any) -> None:
    """Whatever holds the values, and whichever objects are shared."""
    assert digest(one) == digest(other)


def test_objects_are_told_apart() -> None:
    """Objects other than arrays, and objects within arrays, have digests of their own."""
    assert digest({1, 2}) != digest({1, 3})
    words = [np.array([word, "b"], object) for word in ("a", "c")]
    assert digest(words[0]) != digest(words[1])
