"""What a shuffle shuffles."""

from collections.abc import Iterator

from netpipe.linting.graph.nodes import Graph, Node
from netpipe.linting.rules.finding import LintFinding, Pipeline
from netpipe.linting.rules.node_kinds import batch_call, makes_other_elements, puts_together
from netpipe.linting.rules.worker_pools import worker_pools


def shuffle_after_batch(pipeline: Pipeline) -> Iterator[LintFinding]:
    """Whole batches are shuffled, and what is in one stays together. An error.

    Batches that are blocks to read are not meant: their elements were shuffled before, or are
    taken apart or batched again after the shuffle.
    """
    for node in pipeline.graph.of_kind("Shuffle", "WindowShuffle"):
        batch = _unshuffled_batch(pipeline.graph, node)
        if batch is not None and not any(map(makes_other_elements, pipeline.graph.above(node))):
            yield LintFinding(
                "shuffle-after-batch",
                "error",
                (node.id, batch.id),
                f"{node} comes after {batch}: it shuffles whole batches, and {_held(batch)} of each"
                " stay the neighbours that they are in the source",
                _before_batch(pipeline.graph, node, batch),
            )


def _unshuffled_batch(graph: Graph, node: Node) -> Node | None:
    """Return the batch that a shuffle gets its elements from, if nothing shuffled before it."""
    below = graph.below(node, makes_other_elements)
    batch = next(filter(puts_together, below), None)
    if batch is None or any(map(_shuffles, graph.below(batch))):
        return None
    return batch


def _shuffles(node: Node) -> bool:
    return node.kind in ("Shuffle", "WindowShuffle") or node.parameters.get("shuffle") is True


def shuffle_after_repeat(pipeline: Pipeline) -> Iterator[LintFinding]:
    """Epochs are mixed. A warning, as sampling like that may be meant.

    A repeat in one of several branches is that branch's weight.
    """
    for node in pipeline.graph.of_kind("Shuffle"):
        for repeat in pipeline.graph.below(node, lambda one: len(one.parents) > 1):
            epochs = repeat.parameters.get("num_epochs")
            if repeat.kind == "Repeat" and epochs != 1:
                yield LintFinding(
                    "shuffle-after-repeat",
                    "warning",
                    (node.id, repeat.id),
                    f"{node} comes after Repeat: it shuffles"
                    f" {'an endless row of' if epochs is None else epochs} epochs as one, so that"
                    " some elements come again before others have come at all",
                    f"Shuffle every epoch, each anew: {_shuffle(pipeline.graph, node)}"
                    f".repeat({'' if epochs is None else epochs})",
                )


def sequential_slice_with_shuffle(pipeline: Pipeline) -> Iterator[LintFinding]:
    """Each worker shuffles its own part of the source.

    An error where batches must not depend on the number of workers, otherwise a warning.
    """
    for pool in worker_pools(pipeline.graph):
        shuffle = next((node for node in pool.nodes if node.kind == "Shuffle"), None)
        if pool.is_sequential and shuffle is not None:
            yield LintFinding(
                "sequential-slice-with-shuffle",
                "warning" if pipeline.for_throughput else "error",
                (pool.prefetch.id, shuffle.id),
                f"sequential_slice=True gives each of {pool} one stretch of the source, and"
                f" {shuffle} shuffles only within it: what a batch can hold depends on the number"
                " of workers",
                "Leave out sequential_slice=True",
            )


def _held(batch: Node) -> str:
    """Say what a batch holds; a batch of one is of what its function puts together."""
    size = batch.parameters.get("batch_size")
    return "the elements" if size == 1 else f"the {size} elements"


def _before_batch(graph: Graph, node: Node, batched: Node) -> str:
    batch = batch_call(batched)
    if node.kind == "Shuffle":
        return f"Shuffle the elements: {_shuffle(graph, node)}{batch}"
    return f"Shuffle the elements: move the {node.kind} in front of {batch}"


def _shuffle(graph: Graph, node: Node) -> str:
    """Write the call; below a `seed` the number is not the user's own."""
    seeded = any(one.kind == "Seed" for one in graph.below(node))
    return ".shuffle()" if seeded else f".shuffle(seed={node.parameters.get('seed')})"
