"""A Grain pipeline as a plain graph.

What is read is the pipeline's structure and the settings of its nodes: no source is opened, no
element is made and grain itself is not imported.
"""

from dataclasses import replace

from netpipe.harness.graph.functions import uses_jax
from netpipe.harness.graph.grain_classes import (
    is_dataset,
    is_random_access,
    parts_of_data_loader,
    seen_as,
    workers_asked_for,
)
from netpipe.harness.graph.nodes import Graph, Node
from netpipe.harness.graph.recording import Recording


def read_graph(dataset: object, recording: Recording | None = None) -> Graph:
    """Read the graph of a grain MapDataset, IterDataset or DataLoader.

    A MapDataset is the root as it is: the `to_iter_dataset()` with default options by which Grain
    iterates it is no node.

    Args:
        dataset: The pipeline.
        recording: Of the time in which it was made. Without it no node has a place, and an
            `mp_prefetch` without workers has left no trace.

    Returns:
        The graph; one without nodes for any other object.
    """
    reading = _Reading(recording or Recording())
    parts = parts_of_data_loader(dataset)
    if parts is None:
        return reading.graph_of(dataset)
    nodes = reading.graph_of(parts.dataset).nodes
    return Graph((*(replace(root, parameters=parts.settings) for root in nodes[:1]), *nodes[1:]))


class _Reading:
    """One reading of a pipeline; it numbers the datasets in the order in which it meets them."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._numbers: dict[tuple[int, bool, bool], int] = {}
        self._nodes: dict[int, Node] = {}

    def graph_of(self, dataset: object) -> Graph:
        """Read all nodes of a dataset, if it is one."""
        if is_dataset(dataset):
            self._read(dataset)
        return Graph(tuple(self._nodes[number] for number in sorted(self._nodes)))

    def _read(self, dataset: object, in_worker: bool = False, bare: bool = False) -> int:
        """Number a dataset and all below it, each once for either side of a process boundary.

        Args:
            dataset: A dataset.
            in_worker: The side that it is on.
            bare: Whether the workers that were asked for it have their node already.
        """
        key = (id(dataset), in_worker, bare)
        if key not in self._numbers:
            self._numbers[key] = len(self._numbers)
            self._add(self._numbers[key], dataset, in_worker, bare)
        return self._numbers[key]

    def _add(self, number: int, dataset: object, in_worker: bool, bare: bool) -> None:
        seen = None if bare else workers_asked_for(dataset, self._recording)
        seen = seen or seen_as(dataset, self._recording)
        below = in_worker or seen.starts_workers
        cost = seen.sent(dataset, in_worker)
        self._nodes[number] = Node(
            id=number,
            kind=seen.kind,
            parameters=seen.parameters,
            parents=tuple([self._read(one, below, seen.is_asked_for) for one in seen.inputs]),
            in_worker=in_worker,
            random_access=is_random_access(dataset),
            uses_jax=any(uses_jax(one) for one in seen.functions),
            made_at=seen.made_at,
            sent_bytes=cost.bytes,
            unpicklable=cost.unpicklable,
        )
