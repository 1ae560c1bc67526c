"""A Grain pipeline as a plain graph. The only file that touches Grain's internals.

What is read is the pipeline's structure and the settings of its nodes: no source is opened, no
element is made and grain itself is not imported. Written for Grain 0.2.17 and 0.2.18; a class
that is not in `_SHAPES` becomes an unknown node with its parents.
"""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from functools import partial
from numbers import Integral, Real
from types import CodeType, MethodType

Plain = None | bool | int | float | str | tuple["Plain", ...]


@dataclass(frozen=True)
class Node:
    """One transformation of a pipeline.

    Attributes:
        id: Its number in `Graph.nodes`; 0 gives the elements that the trainer sees.
        kind: What it does, as its Grain method is called: "Batch", "Map", "Shuffle", "Mix";
            "ToIter" for `to_iter_dataset`, "ProcessPrefetch" for `mp_prefetch`, "Source" for
            what it all starts from; "Unknown:<class>" for a class this version does not know.
        parameters: Its settings by their names in Grain; a function or an object is its name.
        parents: Ids of the nodes that it takes its elements from.
        in_worker: Whether it runs in a worker process, not in the one that trains.
        random_access: Whether it is a MapDataset, whose elements have places: what it does to an
            element then depends on the place alone, not on the number of workers.
        uses_jax: Whether the user's function in it calls jax.
        made_at: Where the user's code made it, as file:line; "" where that is not known.
        sent_bytes: Bytes that each worker is sent of what the node itself holds; None in the
            training process, and where it cannot be sent.
        unpicklable: Why it cannot be sent to a worker; "" where it can.
    """

    id: int
    kind: str
    parameters: Mapping[str, Plain]
    parents: tuple[int, ...]
    in_worker: bool
    random_access: bool = False
    uses_jax: bool = False
    made_at: str = ""
    sent_bytes: int | None = None
    unpicklable: str = ""

    def __str__(self) -> str:
        """Return what messages call it."""
        transform = self.parameters.get("transform")
        return f"{self.kind} of {transform}" if transform else self.kind


@dataclass(frozen=True)
class Graph:
    """A pipeline, from what the trainer sees down to its sources; empty if it is not Grain's."""

    nodes: tuple[Node, ...] = ()

    def of_kind(self, *kinds: str) -> tuple[Node, ...]:
        """Return the nodes of some kinds, those nearest to the trainer first."""
        return tuple(node for node in self.nodes if node.kind in kinds)

    def below(self, node: Node) -> Iterator[Node]:
        """Yield once each all nodes that elements pass through before `node`, nearest first."""
        waiting, seen = deque(node.parents), set()
        while waiting:
            number = waiting.popleft()
            if number not in seen:
                seen.add(number)
                yield self.nodes[number]
                waiting.extend(self.nodes[number].parents)


def read_graph(dataset: object) -> Graph:
    """Read the graph of a grain MapDataset, IterDataset or DataLoader.

    Returns:
        The graph; one without nodes for any other object.
    """
    if "DataLoader" in _grain_names(dataset):
        dataset = getattr(dataset, "_dataset", None)
    nodes: dict[int, Node] = {}
    if _is_dataset(dataset):
        _read(dataset, False, nodes, {})
    return Graph(tuple(nodes[number] for number in sorted(nodes)))


def _read(
    dataset: object,
    in_worker: bool,
    nodes: dict[int, Node],
    numbers: dict[tuple[int, bool], int],
) -> int:
    """Number a dataset and all below it, each once for either side of a process boundary."""
    key = (id(dataset), in_worker)
    if key in numbers:
        return numbers[key]
    number = numbers[key] = len(numbers)
    workers = _workers(dataset)
    inputs = _worker_inputs(workers) if workers else _inputs(dataset)
    nodes[number] = Node(
        id=number,
        kind="ProcessPrefetch" if workers else _shape(dataset)[0],
        parameters=_worker_settings(workers) if workers else _settings(dataset),
        parents=tuple(_read(one, in_worker or bool(workers), nodes, numbers) for one in inputs),
        in_worker=in_worker,
    )
    return number


# ---- Grain's classes: what each is called here, and which of its attributes are settings.

_SHAPES: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "SourceMapDataset": ("Source", ("_source",)),
    "RangeMapDataset": ("Source", ("start", "stop", "step")),
    "ParquetIterDataset": ("Source", ()),
    "TFRecordIterDataset": ("Source", ()),
    "SliceMapDataset": ("Slice", ("_start", "_stop", "_step")),
    "ShuffleMapDataset": ("Shuffle", ("_seed",)),
    "WindowShuffleMapDataset": ("WindowShuffle", ("_seed", "_window_size")),
    "WindowShuffleIterDataset": ("WindowShuffle", ("_seed", "_window_size")),
    "RepeatMapDataset": ("Repeat", ("_num_epochs", "_reseed_each_epoch")),
    "RepeatIterDataset": ("Repeat", ("_num_epochs",)),
    "LimitIterDataset": ("Limit", ("_count",)),
    "CacheIterDataset": ("Cache", ()),
    "MapMapDataset": ("Map", ("_map_fn",)),
    "MapIterDataset": ("Map", ("_map_fn",)),
    "RandomMapMapDataset": ("RandomMap", ("_map_fn",)),
    "RandomMapIterDataset": ("RandomMap", ("_map_fn", "_seed")),
    "MapWithIndexMapDataset": ("MapWithIndex", ("_map_fn",)),
    "MapWithIndexIterDataset": ("MapWithIndex", ("_map_fn",)),
    "FilterMapDataset": ("Filter", ("_filter_fn",)),
    "FilterIterDataset": ("Filter", ("_filter_fn",)),
    "FlatMapMapDataset": ("FlatMap", ("_transform",)),
    "FlatMapIterDataset": ("FlatMap", ("_transform",)),
    "BatchMapDataset": ("Batch", ("_batch_size", "_drop_remainder", "_batch_fn")),
    "BatchIterDataset": ("Batch", ("_batch_size", "_drop_remainder", "_batch_fn")),
    "RebatchIterDataset": ("Rebatch", ("_batch_size", "_drop_remainder")),
    "PackIterDataset": ("Pack", ("_num_packing_bins", "_seed", "_shuffle_bins")),
    "ConcatThenSplitIterDataset": ("ConcatThenSplit", ()),
    "ConcatenateMapDataset": ("Concatenate", ()),
    "MixedMapDataset": ("Mix", ()),
    "MixedIterDataset": ("Mix", ("_proportions",)),
    "ZipMapDataset": ("Zip", ()),
    "ZipIterDataset": ("Zip", ("_strict",)),
    "InterleaveIterDataset": ("Interleave", ("_cycle_length", "_iter_buffer_size")),
    "PrefetchIterDataset": ("ToIter", ("_read_options", "_allow_nones")),
    "ThreadPrefetchIterDataset": ("ThreadPrefetch", ("_prefetch_buffer_size",)),
    "ElasticIterator": ("Elastic", ("_global_batch_size", "_read_options")),
    "WithOptionsIterDataset": ("Options", ("options",)),
    "_WithSeedMapDataset": ("Seed", ("_seed_rng_seed",)),
    "_WithSeedIterDataset": ("Seed", ("_seed_rng_seed",)),
    "_MpContextIterDataset": ("WorkerContext", ()),
    "_LazyWorkerSliceIterDataset": ("WorkerSlice", ("_sequential_slice",)),
    "_SamplerMapDataset": ("Sampler", ("_sampler",)),
    "_ShardMapDataset": ("Shard", ()),
    "_OperationIterDataset": ("Operation", ("operation",)),
    "_DataLoaderStateIterDataset": ("DataLoaderState", ("_worker_count",)),
    "_DataLoaderPipelineMarkerIterDataset": ("DataLoader", ()),
}

_WORKER_WRAPPERS = ("WorkerContext", "WorkerSlice")


def _grain_names(value: object) -> list[str]:
    """Names of the Grain classes that an object is of, the nearest first: a user may derive."""
    kinds = type(value).__mro__
    return [kind.__name__ for kind in kinds if kind.__module__.partition(".")[0] == "grain"]


def _is_dataset(value: object) -> bool:
    return not {"MapDataset", "IterDataset"}.isdisjoint(_grain_names(value))


def _shape(dataset: object) -> tuple[str, tuple[str, ...]]:
    known = (_SHAPES[name] for name in _grain_names(dataset) if name in _SHAPES)
    return next(known, (f"Unknown:{type(dataset).__name__}", ()))


def _inputs(dataset: object) -> Sequence[object]:
    """What a dataset reads from. A lazy list of datasets is one dataset itself: it is not read."""
    for attribute in ("_datasets", "_ds"):
        inner = getattr(dataset, attribute, None)
        if isinstance(inner, list | tuple):
            return inner
        if _is_dataset(inner):
            return (inner,)
    parents: Sequence[object] = getattr(dataset, "parents", ())
    return parents


def _workers(dataset: object) -> Sequence[object]:
    """The datasets that run in processes of their own, if this is what `mp_prefetch` returned."""
    inner = getattr(dataset, "_datasets", (dataset,))
    if not isinstance(inner, list | tuple):
        return ()
    return inner if all("ProcessPrefetchIterDataset" in _grain_names(one) for one in inner) else ()


def _worker_inputs(workers: Sequence[object]) -> Sequence[object]:
    """The user's graph that the workers share, without what `mp_prefetch` put around it."""
    shared = {id(one): one for worker in workers for one in _unwrapped(_inputs(worker))}
    return tuple(shared.values())


def _unwrapped(datasets: Sequence[object]) -> Sequence[object]:
    while len(datasets) == 1 and _shape(datasets[0])[0] in _WORKER_WRAPPERS:
        datasets = _inputs(datasets[0])
    return datasets


def _worker_settings(workers: Sequence[object]) -> Mapping[str, Plain]:
    buffer_size = getattr(workers[0], "_buffer_size", None)
    return {"num_workers": len(workers), "per_worker_buffer_size": _plain(buffer_size)}


def _settings(dataset: object) -> Mapping[str, Plain]:
    settings: dict[str, Plain] = {}
    for attribute in _shape(dataset)[1]:
        value = getattr(dataset, attribute, None)
        if is_dataclass(value):
            public = (one.name for one in fields(value) if not one.name.startswith("_"))
            settings |= {name: _plain(getattr(value, name)) for name in public}
        elif attribute in ("_map_fn", "_filter_fn"):
            settings |= {"transform": _name(value), "device_put": _calls_device_put(value)}
        else:
            settings[attribute.lstrip("_")] = _plain(value)
    return settings


# ---- Values as plain data


def _plain(value: object) -> Plain:
    if isinstance(value, Enum):
        return value.name
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        return float(value)
    if isinstance(value, list | tuple):
        return tuple(_plain(one) for one in value)
    return _name(value)


def _name(value: object) -> str:
    """Name a function by where it is defined, a method or an object by its class."""
    if isinstance(value, partial):
        return _name(value.func)
    owner = value.__self__ if isinstance(value, MethodType) else value
    named = owner if hasattr(owner, "__qualname__") else type(owner)
    return f"{getattr(named, '__module__', None)}.{named.__qualname__}"


def _calls_device_put(function: object) -> bool:
    """Whether a function is or names one of jax's device_put functions, nested ones included."""
    if isinstance(function, partial):
        return _calls_device_put(function.func)
    names = {getattr(function, "__name__", ""), *_names_in(getattr(function, "__code__", None))}
    return any(name.startswith("device_put") for name in names)


def _names_in(code: object) -> Iterator[str]:
    if isinstance(code, CodeType):
        yield from code.co_names
        for constant in code.co_consts:
            yield from _names_in(constant)
