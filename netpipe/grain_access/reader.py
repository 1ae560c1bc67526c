"""Reads a Grain pipeline as a plain graph.

Only the structure of the pipeline and the settings of its nodes are read: no source is opened, no
element is made, grain itself is not imported, and no property or method of a loader is run, except
by `make_loader`.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple

from netpipe.grain_access.function_calls import uses_jax
from netpipe.grain_access.grain_classes import (
    DatasetInfo,
    describe_dataset,
    describe_requested_workers,
    is_dataset,
    is_random_access,
    unpack_data_loader,
)
from netpipe.grain_access.nodes import Graph, Node, module_name
from netpipe.grain_access.pickled_size import PickledSize, PickleSizer
from netpipe.grain_access.source_lines import Recording

_MAX_ATTRIBUTE_DEPTH = 2
_DATASETS = ("MapDataset", "IterDataset", "DataLoader")


def read_graph(dataset: object, recording: Recording | None = None) -> Graph:
    """Read the graph of a grain MapDataset, IterDataset or DataLoader.

    A MapDataset is the root itself: the default `to_iter_dataset()` with which Grain iterates it is
    not a node. The graph of any other object has no nodes. Without a recording of how the pipeline
    was made, nodes have no source lines, and an `mp_prefetch` without workers is not seen.
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
    visited = _visit(inner, Recording()).values()
    return {number: visit.dataset for number, (visit, _, _) in enumerate(visited)}


_Key = tuple[int, bool, bool]


class _Visit(NamedTuple):
    """A dataset in one process; `sizer` is its workers' sizer, None in the training process."""

    dataset: object
    sizer: PickleSizer | None = None
    # Whether the workers that the dataset requests already have their node.
    has_workers_node: bool = False

    @property
    def key(self) -> _Key:
        """A key that all visits of one node share."""
        return id(self.dataset), self.sizer is not None, self.has_workers_node


_Visited = dict[_Key, tuple[_Visit, DatasetInfo, list[_Visit]]]


def _visit(dataset: object, recording: Recording) -> _Visited:
    """Visit all datasets of a pipeline, depth first, each with the visits of its inputs."""
    infos: dict[int, DatasetInfo] = {}
    visited: _Visited = {}
    # A pipeline may be deeper than Python's recursion limit.
    waiting = [_Visit(dataset)] if is_dataset(dataset) else []
    while waiting:
        visit = waiting.pop()
        if visit.key in visited:
            continue
        requested = None
        if not visit.has_workers_node:
            requested = describe_requested_workers(visit.dataset, recording)
        # Each dataset is described once, because finding its length may take time.
        if requested is None and id(visit.dataset) not in infos:
            infos[id(visit.dataset)] = describe_dataset(visit.dataset, recording)
        info = requested or infos[id(visit.dataset)]
        sizer = PickleSizer() if info.kind == "ProcessPrefetch" else visit.sizer
        below = [_Visit(parent, sizer, requested is not None) for parent in info.inputs]
        visited[visit.key] = (visit, info, below)
        waiting.extend(reversed(below))
    return visited


def _make_nodes(visited: _Visited) -> Iterator[Node]:
    numbers = {key: number for number, key in enumerate(visited)}
    for key, (visit, info, below) in visited.items():
        size = PickledSize(None)
        if info.kind == "ProcessPrefetch":
            size = PickleSizer().measure(info.worker_init_fn)
        elif visit.sizer:
            size = visit.sizer.measure(visit.dataset, info.inputs)
        yield Node(
            id=numbers[key],
            kind=info.kind,
            parameters=info.parameters,
            parents=tuple(numbers[parent.key] for parent in below),
            in_worker=visit.sizer is not None,
            random_access=is_random_access(visit.dataset),
            uses_jax=any(map(uses_jax, info.functions)),
            made_at=info.made_at,
            sent_bytes=size.bytes,
            unpicklable=size.unpicklable,
        )


# ---- Datasets inside a loader of another class, such as kauldron's pipelines


def find_held_datasets(loader: object) -> Mapping[str, object]:
    """Return the Grain datasets that an iterable object holds, by the names of its attributes.

    Datasets that another of them reads are omitted; an object of a Grain class holds none.
    """
    if not _may_hold_datasets(loader):
        return {}
    attributes = _find_attributes(loader, _MAX_ATTRIBUTE_DEPTH)
    deepest_first = sorted(attributes, key=lambda item: -item[0].count("."))
    # The name nearest to the loader overwrites longer names of the same object.
    held = {id(dataset): (name, dataset) for name, dataset in deepest_first}
    read = {
        id(below)
        for _, dataset in held.values()
        for below in collect_datasets(dataset).values()
        if below is not dataset
    }
    return {name: dataset for number, (name, dataset) in held.items() if number not in read}


def _may_hold_datasets(loader: object) -> bool:
    kind = type(loader)
    return hasattr(kind, "__iter__") and not module_name(kind).startswith("grain.")


def _find_attributes(holder: object, depth: int) -> Iterator[tuple[str, object]]:
    for name, value in own_attributes(holder).items():
        if is_dataset(value) or unpack_data_loader(value):
            yield name, value
        elif depth > 1 and not isinstance(value, type):
            for inner, dataset in _find_attributes(value, depth - 1):
                yield f"{name}.{inner}", dataset


def own_attributes(holder: object) -> Mapping[str, object]:
    """Return the attributes of an object by name, without running its code."""
    try:
        return dict(object.__getattribute__(holder, "__dict__"))
    except AttributeError:  # the class has slots, or is built in
        return {}


def make_loader(factory: Callable[[], Any]) -> Any:
    """Return a factory's loader, after it has made any Grain dataset that it makes on demand.

    Cached properties that are annotated to return a dataset are evaluated, because the loader keeps
    their values. Errors are ignored here: they occur again when the loader is iterated.
    """
    made = factory()
    if not find_held_datasets(made):
        for name, value in find_dataset_properties(made).items():
            if isinstance(value, cached_property):
                with suppress(Exception):
                    getattr(made, name)
    return made


def find_dataset_properties(loader: object) -> Mapping[str, object]:
    """Return the properties that are annotated to return a Grain dataset, by their names."""
    found: dict[str, object] = {}
    if not _may_hold_datasets(loader):
        return found
    for kind in reversed(type(loader).__mro__):
        for name, value in vars(kind).items():
            function = value.fget if isinstance(value, property) else None
            function = value.func if isinstance(value, cached_property) else function
            returned = getattr(function, "__annotations__", {}).get("return", "")
            text = returned if isinstance(returned, str) else getattr(returned, "__name__", "")
            if text.rpartition(".")[2] in _DATASETS:
                found[name] = value
    return found
