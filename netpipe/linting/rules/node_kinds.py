"""What the kinds of nodes have in common, and how a fix calls them."""

from typing import Final

from netpipe.linting.graph.nodes import Node

BATCHES: Final = ("Batch", "Rebatch")

DEPENDS_ON_ORDER: Final = (
    "MapWithIndex",
    "Filter",
    "FlatMap",
    "Pack",
    "ConcatThenSplit",
    "Operation",
)
"""What runs for each element, and has another result where the elements before it are others."""

USER_CODE: Final = ("Map", "RandomMap", *DEPENDS_ON_ORDER)


def is_work(node: Node) -> bool:
    """Whether a node does what workers could do; what calls jax is the training process's own."""
    on_device = node.uses_jax or node.parameters.get("device_put")
    return node.kind in (*BATCHES, *USER_CODE) and not on_device


def makes_other_elements(node: Node) -> bool:
    """Whether an element of a node is another thing than one of its input; unknown classes may."""
    makes = (*BATCHES, "FlatMap", "Pack", "ConcatThenSplit", "Operation")
    return node.kind in makes or node.kind.startswith("Unknown:")


def puts_together(node: Node) -> bool:
    """Whether an element of a node is a batch of several; a function of the user's own may."""
    return node.kind in BATCHES and (node.parameters.get("batch_size") != 1 or _has_own(node))


def batch_call(node: Node) -> str:
    """Write the call of a batch with what the user set, a function of the user's own as `...`."""
    arguments = [f"batch_size={node.parameters.get('batch_size')}"]
    if node.parameters.get("drop_remainder") is True:
        arguments.append("drop_remainder=True")
    if _has_own(node):
        arguments.append("batch_fn=...")
    return f".batch({', '.join(arguments)})"


def _has_own(batch: Node) -> bool:
    return not str(batch.parameters.get("batch_fn") or "grain.").startswith("grain.")
