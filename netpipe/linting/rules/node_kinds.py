"""Groups of node kinds, and predicates on nodes."""

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
"""Kinds that run per element and whose result depends on the elements before it."""

USER_CODE: Final = ("Map", "RandomMap", *DEPENDS_ON_ORDER)


def is_work(node: Node) -> bool:
    """Whether workers could run a node; code that calls jax belongs in the training process."""
    on_device = node.uses_jax or node.parameters.get("device_put")
    return node.kind in (*BATCHES, *USER_CODE) and not on_device


def changes_elements(node: Node) -> bool:
    """Whether a node combines or splits elements; an unknown class may."""
    kinds = (*BATCHES, "FlatMap", "Pack", "ConcatThenSplit", "Operation")
    return node.kind in kinds or node.kind.startswith("Unknown:")


def is_batch(node: Node) -> bool:
    """Whether a node makes batches of several elements; a user's `batch_fn` may do so for one."""
    is_single = node.parameters.get("batch_size") == 1
    return node.kind in BATCHES and (not is_single or _has_own_function(node))


def write_batch_call(node: Node) -> str:
    """Return the `.batch(...)` call of a node with the user's arguments."""
    arguments = [f"batch_size={node.parameters.get('batch_size')}"]
    if node.parameters.get("drop_remainder") is True:
        arguments.append("drop_remainder=True")
    if _has_own_function(node):
        arguments.append("batch_fn=...")
    return f".batch({', '.join(arguments)})"


def _has_own_function(batch: Node) -> bool:
    return not str(batch.parameters.get("batch_fn") or "grain.").startswith("grain.")
