"""Rules about the elements that a shuffle mixes."""

from collections.abc import Iterator
from typing import Final

from netpipe.grain_access.nodes import Graph, Node
from netpipe.linting.rules.finding import Pipeline, Problem
from netpipe.linting.rules.graph_parts import (
    changes_elements,
    is_batch,
    worker_pools,
    write_batch_call,
)

_SHUFFLES: Final = ("Shuffle", "WindowShuffle")


def shuffle_after_batch(pipeline: Pipeline) -> Iterator[Problem]:
    """Report shuffles of whole batches, whose elements stay together.

    Blocks that are only read together are not reported: their elements were shuffled before, or are
    split or batched again after the shuffle.
    """
    graph = pipeline.graph
    for node in graph.of_kind(*_SHUFFLES):
        batch = next(filter(is_batch, graph.below(node, changes_elements)), None)
        if batch is None or any(
            below.kind in _SHUFFLES or below.parameters.get("shuffle") is True
            for below in graph.below(batch)
        ):
            continue
        if not any(map(changes_elements, graph.above(node))):
            size = batch.parameters.get("batch_size")
            # A batch of one holds the elements that its function combines.
            elements = "the elements" if size == 1 else f"the {size} elements"
            is_window = node.kind == "WindowShuffle"
            shuffle = "move the WindowShuffle before " if is_window else _write_call(graph, node)
            yield Problem(
                "error",
                (node, batch),
                f"{node} comes after {batch}: it shuffles whole batches, and {elements} of each"
                " stay neighbours, as they are in the source",
                f"Shuffle the elements: {shuffle}{write_batch_call(batch)}",
            )


def shuffle_after_repeat(pipeline: Pipeline) -> Iterator[Problem]:
    """Warn about shuffles that mix epochs; such sampling may be intended.

    A repeat in one of several branches only sets the weight of that branch.
    """
    for node in pipeline.graph.of_kind("Shuffle"):
        for repeat in pipeline.graph.below(node, lambda below: len(below.parents) > 1):
            epochs = repeat.parameters.get("num_epochs")
            if repeat.kind == "Repeat" and epochs != 1:
                yield Problem(
                    "warning",
                    (node, repeat),
                    f"{node} comes after Repeat: it shuffles"
                    f" {'endless' if epochs is None else epochs} epochs as one, so that some"
                    " elements come again before others have come at all",
                    f"Shuffle every epoch separately: {_write_call(pipeline.graph, node)}"
                    f".repeat({'' if epochs is None else epochs})",
                )


def sequential_slice_with_shuffle(pipeline: Pipeline) -> Iterator[Problem]:
    """Report workers that each shuffle their own slice of the source."""
    for pool in worker_pools(pipeline.graph):
        shuffle = next((node for node in pool.nodes if node.kind == "Shuffle"), None)
        if pool.is_sequential and shuffle is not None:
            yield Problem(
                "warning" if pipeline.for_throughput else "error",
                (pool.prefetch, shuffle),
                f"sequential_slice=True gives each of {pool} one contiguous slice of the source,"
                f" and {shuffle} shuffles only within it: what a batch can hold depends on the"
                " number of workers",
                "Remove sequential_slice=True",
            )


def _write_call(graph: Graph, node: Node) -> str:
    # After a `.seed(...)`, Grain derives the seed of the shuffle.
    is_seeded = any(below.kind == "Seed" for below in graph.below(node))
    return ".shuffle()" if is_seeded else f".shuffle(seed={node.parameters.get('seed')})"
