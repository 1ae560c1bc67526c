"""How many tokens a batch holds; padding does not count."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

BY_SEGMENTATION: Final = "those whose inputs_segmentation is above 0"
BY_ELEMENTS: Final = "all elements of a batch's first leaf, padding too"

_SEGMENTATION: Final = "inputs_segmentation"


@dataclass(frozen=True)
class Counted:
    """The tokens of one batch.

    Attributes:
        tokens: Real tokens.
        slots: Token positions, padding included.
        rule: `BY_SEGMENTATION` or `BY_ELEMENTS`.
    """

    tokens: int
    slots: int
    rule: str

    @property
    def padding_fraction(self) -> float:
        """Share of the positions that are padding; 0 for a batch without positions."""
        return 1 - self.tokens / self.slots if self.slots else 0.0


def count_tokens(batch: object) -> Counted:
    """Count by `inputs_segmentation` where a batch has it; else every element is a token."""
    if isinstance(batch, Mapping) and _SEGMENTATION in batch:
        segmentation = np.asarray(batch[_SEGMENTATION])
        tokens = int(np.count_nonzero(segmentation > 0))
        return Counted(tokens, segmentation.size, BY_SEGMENTATION)
    elements = int(np.size(_first_leaf(batch)))
    return Counted(elements, elements, BY_ELEMENTS)


def _first_leaf(value: Any) -> Any:
    while isinstance(value, Mapping | list | tuple) and len(value):
        value = next(iter(value.values() if isinstance(value, Mapping) else value))
    return value
