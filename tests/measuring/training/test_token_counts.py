"""Counting the tokens of batches."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from netpipe.measuring.training.token_counts import BY_ELEMENTS, Counted, count_tokens

INPUTS = np.zeros((2, 4), np.int32)
SEGMENTATION = np.array([[1, 1, 2, 0], [1, 0, 0, 0]])


@dataclass
class Images:
    """A batch of images, like those of flax.struct."""

    mean: Any = field(metadata={"pytree_node": False})
    deviation: Any = field(metadata={"static": True})
    image: Any
    label: int = 0
    cache: Any = field(init=False)


@pytest.mark.parametrize("dtype", ["int32", "uint8", "bool"])
@pytest.mark.parametrize(
    "name",
    [
        "inputs_segmentation",  # MaxText
        "tokens_segment_ids",  # Grain's packing
        "attention_mask",  # Hugging Face
        "input_mask",  # BERT
    ],
)
def test_padding_does_not_count(name: str, dtype: str) -> None:
    """Tokens are where a segmentation or a mask is above 0, under the names of known packages."""
    batch = {"inputs": INPUTS, name: SEGMENTATION.astype(dtype)}
    counted = count_tokens(batch)
    assert counted == Counted(2, 4, 8, f"those whose {name} is above 0")
    assert counted.padding_fraction == 0.5
    assert count_tokens({"text": batch}).rule == f"those whose text.{name} is above 0"


def test_the_inputs_count_before_the_targets() -> None:
    """Targets may also be padded at the end of each segment."""
    targets = {"targets": INPUTS, "targets_segmentation": np.zeros((2, 4))}
    batch = {**targets, "inputs": INPUTS, "inputs_segmentation": SEGMENTATION}
    assert count_tokens(batch).tokens == count_tokens(dict(reversed(batch.items()))).tokens == 4


@pytest.mark.parametrize(
    "other",
    [
        {"attention_mask": np.ones((2, 4, 4))},
        {"paddings": SEGMENTATION},
        {"segmentation": SEGMENTATION},
        {"semantic_segmentation": SEGMENTATION},
        {},
    ],
)
def test_padding_is_not_guessed(other: dict[str, Any]) -> None:
    """Zeros in the inputs may be tokens, and other leaves are not masks."""
    assert count_tokens({"inputs": INPUTS, **other}) == Counted(2, 8, 8, BY_ELEMENTS)


@pytest.mark.parametrize(
    ("batch", "rows", "elements"),
    [
        ({"x": np.zeros((2, 3)), "label": np.zeros(2)}, 2, 6),
        ([np.zeros(5), np.zeros((9, 9))], 5, 5),
        (({"tokens": [np.zeros((4, 2))]}, 1), 4, 8),
        ([Images(np.zeros(3), np.ones(3), np.zeros((6, 4)))], 6, 24),
        ({"x": np.zeros((5, 2)), "kind": Images}, 5, 10),
        ({"epoch": 1, "x": np.zeros((3, 2))}, 3, 6),
        (np.zeros((3, 7)), 3, 21),
        ({}, 1, 1),
    ],
)
def test_without_a_segmentation_every_element_counts(batch: Any, rows: int, elements: int) -> None:
    """All elements of the first array count; its rows are the examples."""
    counted = count_tokens(batch)
    assert counted == Counted(rows, elements, elements, BY_ELEMENTS)
    assert counted.padding_fraction == 0


def test_tensors_count_as_arrays() -> None:
    """The `size` of a torch tensor is a method."""

    class Tensor:
        shape = (2, 3)

        def size(self) -> tuple[int, ...]:
            return self.shape

    assert count_tokens([Tensor()]) == Counted(2, 6, 6, BY_ELEMENTS)
