"""Reads a Grain pipeline as a plain graph.

Only the structure of the pipeline and the settings of its nodes are read: no source is opened, no
element is made, and grain itself is not imported.
"""

from collections.abc import Iterator, Mapping
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
from netpipe.linting.graph.pickled_size import PickledSize, PickleSizer
from netpipe.linting.graph.source_lines import Recording


def read_graph(dataset: object, recording: Recording | None = None) -> Graph:
    """Read the graph of a grain MapDataset, IterDataset or DataLoader.

    A MapDataset is the root itself: the default `to_iter_dataset()` by which Grain iterates it is
    not a node.

    Args:
        dataset: The pipeline.
        recording: What was recorded while the pipeline was made. Without it no node has a source
            line, and an `mp_prefetch` without workers is not seen.

    Returns:
        The graph; without nodes for any other object.
    """
    parts = unpack_data_loader(dataset)
    inner, settings = parts or (dataset, {})
    nodes = list(_make_nodes(_visit(inner, recording or Recording())))
    if parts and nodes:
        nodes[0] = replace(nodes[0], parameters=settings)
    return Graph(tuple(nodes))


def collect_datasets(dataset: object) -> Mapping[int, object]:
    """Return the datasets of a pipeline by the ids that their nodes have in `read_graph`."""
    inner, _ = unpack_data_loader(dataset) or (dataset, {})
    places = (place for place, _, _ in _visit(inner, Recording()).values())
    return {number: place.dataset for number, place in enumerate(places)}


_Key = tuple[int, bool, bool]


@dataclass(frozen=True)
class _Place:
    """A dataset in one process.

    Attributes:
        dataset: The dataset.
        sizer: Counts what the workers that it runs in are sent; None in the training process.
        has_workers_node: Whether the workers requested for it have their node already.
    """

    dataset: object
    sizer: PickleSizer | None = None
    has_workers_node: bool = False

    @property
    def key(self) -> _Key:
        """What places with the same node have in common."""
        return id(self.dataset), self.sizer is not None, self.has_workers_node


_Visited = tuple[_Place, DatasetInfo, list[_Place]]


def _visit(dataset: object, recording: Recording) -> dict[_Key, _Visited]:
    """Visit all datasets of a pipeline, depth first."""
    infos: dict[int, DatasetInfo] = {}
    visited: dict[_Key, _Visited] = {}
    # Not by recursion: a pipeline may be deeper than Python's stack.
    waiting = [_Place(dataset)] if is_dataset(dataset) else []
    while waiting:
        place = waiting.pop()
        if place.key in visited:
            continue
        asked = not place.has_workers_node
        info = describe_requested_workers(place.dataset, recording) if asked else None
        if info is None:
            # Only once, because it asks a dataset for its length, which may take time.
            if id(place.dataset) not in infos:
                infos[id(place.dataset)] = describe_dataset(place.dataset, recording)
            info = infos[id(place.dataset)]
        sizer = PickleSizer() if info.starts_workers else place.sizer
        below = [_Place(dataset, sizer, info.is_requested) for dataset in info.inputs]
        visited[place.key] = (place, info, below)
        waiting.extend(reversed(below))
    return visited


def _make_nodes(visited: Mapping[_Key, _Visited]) -> Iterator[Node]:
    numbers = {key: number for number, key in enumerate(visited)}
    for key, (place, info, below) in visited.items():
        size = _measure_pickle(place, info)
        yield Node(
            id=numbers[key],
            kind=info.kind,
            parameters=info.parameters,
            parents=tuple(numbers[parent.key] for parent in below),
            in_worker=place.sizer is not None,
            random_access=is_random_access(place.dataset),
            uses_jax=any(map(uses_jax, info.functions)),
            made_at=info.made_at,
            sent_bytes=size.bytes,
            unpicklable=size.unpicklable,
        )


def _measure_pickle(place: _Place, info: DatasetInfo) -> PickledSize:
    if info.starts_workers:
        return PickleSizer().measure(info.worker_init_fn)
    return place.sizer.measure(place.dataset, info.inputs) if place.sizer else PickledSize(None)
