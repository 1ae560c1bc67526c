"""How many tokens a batch holds."""

from typing import Any

import numpy as np
import pytest

from netpipe.throughput.token_counting import BY_ELEMENTS, BY_SEGMENTATION, Counted, count_tokens


@pytest.mark.parametrize("dtype", ["int32", "uint8"])
def test_padding_is_no_token(dtype: str) -> None:
    """Where there is a segmentation, a token is what is in a segment, whichever it is."""
    segmentation = np.array([[1, 1, 2, 0], [1, 0, 0, 0]]).astype(dtype)
    batch = {"inputs": np.zeros((2, 4), np.int32), "inputs_segmentation": segmentation}
    counted = count_tokens(batch)
    assert counted == Counted(tokens=4, slots=8, rule=BY_SEGMENTATION)
    assert counted.padding_fraction == 0.5


@pytest.mark.parametrize(
    ("batch", "elements"),
    [
        ({"x": np.zeros((2, 3)), "label": np.zeros(2)}, 6),
        ([np.zeros(5), np.zeros((9, 9))], 5),
        (({"tokens": [np.zeros((4, 2))]}, 1), 8),
        (np.zeros((3, 7)), 21),
        ({}, 1),
    ],
)
def test_without_a_segmentation_every_element_counts(batch: Any, elements: int) -> None:
    """Those of the first leaf, in the batch's own order, count as tokens, and none is padding."""
    counted = count_tokens(batch)
    assert counted == Counted(elements, elements, BY_ELEMENTS)
    assert counted.padding_fraction == 0
