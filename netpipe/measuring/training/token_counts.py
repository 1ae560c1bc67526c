"""Count the tokens of a batch by the leaf that marks its padding."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from math import prod
from typing import Any, Final

import numpy as np

BY_ELEMENTS: Final = "all elements of a batch's first array, padding too"

# The names used by MaxText, Grain, Hugging Face and BERT. In other arrays, 0 may not mean padding.
_MARK: Final = re.compile(
    r"(.*\.)?((inputs|targets)_segmentation|\w+_segment_ids|attention_mask|input_mask)"
)


@dataclass(frozen=True)
class Counted:
    """The tokens of one batch, and its token positions including padding (`slots`)."""

    examples: int
    tokens: int
    slots: int
    rule: str

    @property
    def padding_fraction(self) -> float:
        """Fraction of the positions that are padding; 0 for a batch without positions."""
        return 1 - self.tokens / self.slots if self.slots else 0.0


def count_tokens(batch: object) -> Counted:
    """Count the elements where a segmentation or mask is above 0, or all elements without one."""
    leaves = dict(name_leaves(batch))
    shapes = {name: np.shape(leaf) for name, leaf in leaves.items()}
    # A mark must share its shape with another leaf: some attention masks cover pairs of tokens.
    places = list(shapes.values())
    marks = [name for name in leaves if _MARK.fullmatch(name) and places.count(shapes[name]) > 1]
    if marks:
        mark = min(marks, key=lambda name: "inputs" not in name)
        shape, rule = shapes[mark], f"those whose {mark} is above 0"
        tokens = int(np.count_nonzero(np.asarray(leaves[mark]) > 0))
    else:
        shape, rule = next(filter(None, places), ()), BY_ELEMENTS
        tokens = prod(shape)
    return Counted(shape[0] if shape else 1, tokens, prod(shape), rule)


def name_leaves(tree: object, name: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the leaves of a batch with their names, such as `inputs` or `pair.0`."""
    if isinstance(tree, Mapping):
        parts: Iterable[tuple[Any, Any]] = tree.items()
    elif isinstance(tree, list | tuple):
        parts = zip(getattr(tree, "_fields", range(len(tree))), tree, strict=True)
    elif is_dataclass(tree) and not isinstance(tree, type) and not hasattr(tree, "shape"):
        # flax and jax keep static fields out of a batch.
        kept = (each for each in fields(tree) if not each.metadata.get("static", False))
        names = (each.name for each in kept if each.metadata.get("pytree_node", True))
        parts = ((name, getattr(tree, name)) for name in names if hasattr(tree, name))
    else:
        yield name, tree
        return
    for key, part in parts:
        yield from name_leaves(part, f"{name}.{key}" if name else str(key))
