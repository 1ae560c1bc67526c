"""A Grain pipeline as a plain graph.

What is read is the pipeline's structure and the settings of its nodes: no source is opened, no
element is made and grain itself is not imported.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from netpipe.linting.graph.function_calls import uses_jax
from netpipe.linting.graph.grain_classes import (
    DatasetInfo,
    describe_dataset,
    describe_requested_workers,
    is_dataset,
    is_random_access,
    unpack_data_loader,
)
from netpipe.linting.graph.nodes import Graph, Node
from netpipe.linting.graph.pickled_size import PickleSizer
from netpipe.linting.graph.source_lines import Recording


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
    parts = unpack_data_loader(dataset)
    if parts is None:
        return reading.graph_of(dataset)
    nodes = reading.graph_of(parts.dataset).nodes
    return Graph((*(replace(root, parameters=parts.settings) for root in nodes[:1]), *nodes[1:]))


def collect_datasets(dataset: object) -> Mapping[int, object]:
    """Return the datasets of a pipeline by the ids that their nodes have in `read_graph`."""
    parts = unpack_data_loader(dataset)
    reading = _Reading(Recording())
    reading.graph_of(dataset if parts is None else parts.dataset)
    return dict(enumerate(reading.datasets))


@dataclass(frozen=True)
class _Place:
    """A dataset on either side of a process boundary, and the workers that it is sent to.

    Attributes:
        dataset: The dataset.
        sizer: What its workers are sent; None in the training process.
        is_bare: Whether the workers that were asked for it have their node already.
    """

    dataset: object
    sizer: PickleSizer | None = None
    is_bare: bool = False

    @property
    def key(self) -> tuple[int, bool, bool]:
        """What it has in common with the places that are the same node."""
        return id(self.dataset), self.sizer is not None, self.is_bare

    def below(self, seen: DatasetInfo) -> list["_Place"]:
        """List the places of what it reads from."""
        sizer = PickleSizer() if seen.starts_workers else self.sizer
        return [_Place(one, sizer, seen.is_asked_for) for one in seen.inputs]


class _Reading:
    """One reading of a pipeline; it numbers the datasets in the order in which it meets them."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._seen: dict[int, DatasetInfo] = {}
        self._numbers: dict[tuple[int, bool, bool], int] = {}
        self._met: list[tuple[_Place, DatasetInfo, list[_Place]]] = []

    def graph_of(self, dataset: object) -> Graph:
        """Read all nodes of a dataset, if it is one."""
        # Not by recursion: a pipeline may be deeper than Python's stack.
        waiting = [_Place(dataset)] if is_dataset(dataset) else []
        while waiting:
            place = waiting.pop()
            if place.key not in self._numbers:
                self._numbers[place.key] = len(self._numbers)
                seen = self._look_at(place)
                below = place.below(seen)
                self._met.append((place, seen, below))
                waiting.extend(reversed(below))
        return Graph(tuple(self._node(*one) for one in self._met))

    @property
    def datasets(self) -> list[object]:
        """The datasets that were met, in the order of their numbers."""
        return [place.dataset for place, _, _ in self._met]

    def _look_at(self, place: _Place) -> DatasetInfo:
        """See a dataset, which is asked only once for what may take time, as its length."""
        asked = (
            None if place.is_bare else describe_requested_workers(place.dataset, self._recording)
        )
        if asked is None and id(place.dataset) not in self._seen:
            self._seen[id(place.dataset)] = describe_dataset(place.dataset, self._recording)
        return asked or self._seen[id(place.dataset)]

    def _node(self, place: _Place, seen: DatasetInfo, below: list[_Place]) -> Node:
        cost = seen.measure_pickle(place.dataset, place.sizer)
        return Node(
            id=self._numbers[place.key],
            kind=seen.kind,
            parameters=seen.parameters,
            parents=tuple(self._numbers[one.key] for one in below),
            in_worker=place.sizer is not None,
            random_access=is_random_access(place.dataset),
            uses_jax=any(uses_jax(one) for one in seen.functions),
            made_at=seen.made_at,
            sent_bytes=cost.bytes,
            unpicklable=cost.unpicklable,
        )
