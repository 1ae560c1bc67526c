"""What Grain's classes are in a graph. The only file that touches Grain's internals.

Written for Grain 0.2.17 and 0.2.18; its tests name what another version adds or takes away. It
neither imports grain nor reads an element of a source.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Final

from netpipe.linting.graph.function_calls import closure_variables, puts_on_device
from netpipe.linting.graph.nodes import PlainValue, module_name, qualified_name, to_plain_value
from netpipe.linting.graph.pickled_size import PickledSize, PickleSizer
from netpipe.linting.graph.source_lines import Recording


@dataclass(frozen=True)
class DatasetInfo:
    """What a dataset is in the graph.

    Attributes:
        kind: As of `Node`; so are `parameters` and `made_at`.
        inputs: The datasets below.
        functions: The user's functions and objects that it calls.
        is_asked_for: Whether it is what was asked for the dataset, which is then its input.
        starts_workers: Whether all below runs in processes of its own.
        worker_init_fn: What these are sent besides the datasets.
    """

    kind: str
    parameters: Mapping[str, PlainValue]
    made_at: str
    inputs: Sequence[object]
    functions: Sequence[object] = ()
    is_asked_for: bool = False
    starts_workers: bool = False
    worker_init_fn: object = None

    def measure_pickle(self, dataset: object, sizer: PickleSizer | None) -> PickledSize:
        """Count what a worker is sent of it, if there are workers that it is sent to."""
        if self.starts_workers:
            return PickleSizer().measure(self.worker_init_fn)
        return PickledSize(None) if sizer is None else sizer.measure(dataset, self.inputs)


@dataclass(frozen=True)
class DataLoaderParts:
    """The dataset that a DataLoader makes of its arguments, and the settings of its workers."""

    dataset: object
    settings: Mapping[str, PlainValue]


def unpack_data_loader(loader: object) -> DataLoaderParts | None:
    """Return what a DataLoader holds; None for any other object."""
    if "DataLoader" not in _grain_names(loader):
        return None
    workers = _setting("", _attribute(loader, "multiprocessing_options"))
    return DataLoaderParts(_attribute(loader, "_dataset"), workers)


def describe_requested_workers(dataset: object, recording: Recording) -> DatasetInfo | None:
    """See the workers that were asked for a dataset and that are no dataset themselves."""
    called_at = recording.without_workers_at(dataset)
    if called_at is not None:
        return DatasetInfo("NoWorkers", {}, called_at, (dataset,), is_asked_for=True)
    # An ElasticIterator makes its workers when it is iterated, and does all that it does in them.
    options = _attribute(dataset, "_multiprocessing_options")
    if _shape(dataset)[0] != "Elastic" or options is None:
        return None
    has_workers = bool(_attribute(options, "num_workers"))
    return DatasetInfo(
        "ProcessPrefetch" if has_workers else "NoWorkers",
        {**_setting("", options), "sequential_slice": False} if has_workers else {},
        recording.made_at(dataset),
        (dataset,),
        is_asked_for=True,
        starts_workers=has_workers,
    )


def describe_dataset(dataset: object, recording: Recording) -> DatasetInfo:
    """See what a dataset does; of a class that is not in `KNOWN_CLASSES`, that it is unknown."""
    made_at = recording.made_at(dataset)
    if workers := _branches(dataset, "ProcessPrefetchIterDataset"):
        return DatasetInfo(
            "ProcessPrefetch",
            _worker_settings(workers),
            made_at,
            _shared_inputs(workers),
            starts_workers=True,
            worker_init_fn=_attribute(workers[0], "_worker_init_fn"),
        )
    if threads := _branches(dataset, "_MpContextIterDataset"):
        buffer_size = to_plain_value(_attribute(dataset, "_iter_buffer_size"))
        settings = {"num_threads": len(threads), "buffer_size": buffer_size}
        # Each thread has a copy of the same graph.
        return DatasetInfo("MultithreadPrefetch", settings, made_at, _shared_inputs(threads[:1]))
    return DatasetInfo(
        _shape(dataset)[0],
        _settings(dataset),
        made_at,
        _inputs(dataset),
        tuple(_functions(dataset)),
    )


# ---- Grain's classes: what each is called here, and which of its attributes are settings.

KNOWN_CLASSES: Mapping[str, tuple[str, tuple[str, ...]]] = {
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
    "ConcatThenSplitIterDataset": ("ConcatThenSplit", ("_config",)),
    "ConcatenateMapDataset": ("Concatenate", ()),
    "MixedMapDataset": ("Mix", ("_selection_map",)),
    "MixedIterDataset": ("Mix", ("_proportions",)),
    "ZipMapDataset": ("Zip", ()),
    "ZipIterDataset": ("Zip", ("_strict",)),
    "InterleaveIterDataset": ("Interleave", ("_cycle_length", "_iter_buffer_size")),
    "PrefetchIterDataset": ("ToIter", ("_read_options", "_allow_nones")),
    "ThreadPrefetchIterDataset": ("ThreadPrefetch", ("_prefetch_buffer_size",)),
    "ElasticIterator": ("Elastic", ("_global_batch_size", "_shard_options", "_read_options")),
    "WithOptionsIterDataset": ("Options", ("options",)),
    "_WithSeedMapDataset": ("Seed", ("_seed_rng_seed",)),
    "_WithSeedIterDataset": ("Seed", ("_seed_rng_seed",)),
    "_MpContextIterDataset": ("WorkerContext", ()),
    "_LazyWorkerSliceIterDataset": ("WorkerSlice", ("_sequential_slice",)),
    "_SamplerMapDataset": ("Sampler", ("_sampler", "length")),
    "_ShardMapDataset": ("Shard", ("_start", "_end")),
    "_OperationIterDataset": ("Operation", ("operation",)),
    "_DataLoaderStateIterDataset": ("DataLoaderState", ("_worker_count",)),
    "_DataLoaderPipelineMarkerIterDataset": ("DataLoader", ()),
}

_WORKER_WRAPPERS: Final = ("WorkerContext", "WorkerSlice")
_USERS: Final = ("_map_fn", "_filter_fn", "_transform", "_batch_fn", "operation", "_source")
_SAMPLERS: Final[Mapping[str, tuple[str, ...]]] = {
    "IndexSampler": ("_num_records", "_shuffle", "_num_epochs", "_seed"),
    "SequentialSampler": ("_num_records", "_seed"),
}


def _grain_names(value: object) -> list[str]:
    """Names of the Grain classes that an object is of, the nearest first: a user may derive."""
    kinds = type(value).__mro__
    return [kind.__name__ for kind in kinds if _is_grains(kind)]


def _is_grains(kind: type) -> bool:
    return module_name(kind).partition(".")[0] == "grain"


def is_dataset(value: object) -> bool:
    """Whether it is a MapDataset or an IterDataset."""
    return not {"MapDataset", "IterDataset"}.isdisjoint(_grain_names(value))


def is_random_access(dataset: object) -> bool:
    """Whether it is a MapDataset."""
    return "MapDataset" in _grain_names(dataset)


def _shape(dataset: object) -> tuple[str, tuple[str, ...]]:
    known = (KNOWN_CLASSES[name] for name in _grain_names(dataset) if name in KNOWN_CLASSES)
    return next(known, (f"Unknown:{type(dataset).__name__}", ()))


def _is_unknown(dataset: object) -> bool:
    return _shape(dataset)[0].startswith("Unknown:")


def _attribute(value: object, name: str) -> object:
    """Get an attribute; None if there is none, or if a property of the user's raises."""
    try:
        return getattr(value, name, None)
    except Exception:  # noqa: BLE001  # what a user's property raises is for it to choose
        return None


# ---- What a dataset reads from


def _inputs(dataset: object) -> Sequence[object]:
    """What a dataset reads from. A lazy list of datasets is one dataset itself: it is not read."""
    parents = _datasets_in(_attribute(dataset, "parents"))
    if not _is_grains(type(dataset)) and (parents or _is_unknown(dataset)):
        return parents  # what names of its own mean in a user's class is not known
    one, *others = (_attribute(dataset, name) for name in ("_datasets", "_ds", "_source"))
    within = (one, (one,), *((other,) for other in others))
    return next(filter(None, map(_datasets_in, within)), parents)


def _datasets_in(value: object) -> Sequence[object]:
    given = value if type(value) in (list, tuple) else ()
    return [one for one in given if is_dataset(one)]  # type: ignore[attr-defined]


def _branches(dataset: object, kind: str) -> Sequence[object]:
    """The datasets that an Interleave reads, if they are all of the kind; or one such itself."""
    if kind in _grain_names(dataset):
        return (dataset,)
    inner = _inputs(dataset) if _shape(dataset)[0] == "Interleave" else ()
    return inner if all(kind in _grain_names(one) for one in inner) else ()


def _shared_inputs(branches: Sequence[object]) -> Sequence[object]:
    """The user's graph that all branches read, without what Grain put around it."""
    shared = {id(one): one for branch in branches for one in _unwrapped(_inputs(branch))}
    return tuple(shared.values())


def _unwrapped(datasets: Sequence[object]) -> Sequence[object]:
    while len(datasets) == 1 and _shape(datasets[0])[0] in _WORKER_WRAPPERS:
        datasets = _inputs(datasets[0])
    return datasets


# ---- What a dataset is set to


def _worker_settings(workers: Sequence[object]) -> Mapping[str, PlainValue]:
    # Below the context of each worker, where there are several, is its slice.
    slices = [one for context in _inputs(workers[0]) for one in _inputs(context)]
    return {
        "num_workers": len(workers),
        "per_worker_buffer_size": to_plain_value(_attribute(workers[0], "_buffer_size")),
        "sequential_slice": any(_attribute(one, "_sequential_slice") is True for one in slices),
    }


def _settings(dataset: object) -> Mapping[str, PlainValue]:
    kind, attributes = _shape(dataset)
    settings: dict[str, PlainValue] = {}
    for attribute in attributes:
        settings |= _setting(attribute, _users(_attribute(dataset, attribute)))
    if kind == "Source" and is_random_access(dataset):
        settings |= _length(dataset)
    return settings


def _setting(attribute: str, value: object) -> Mapping[str, PlainValue]:
    """Make settings of an attribute: Grain's own objects are settings by their fields."""
    if attribute in ("_map_fn", "_filter_fn"):
        return {"transform": qualified_name(value), "device_put": puts_on_device(value)}
    if attribute == "_source":  # the user's data, if it is a list
        return {"source": qualified_name(value)}
    if parts := _parts(value):
        return {
            name: to_plain_value(one) for name, one in parts.items() if not name.startswith("_")
        }
    settings = {attribute.lstrip("_"): to_plain_value(value)}
    for name in (name for kind in _grain_names(value) for name in _SAMPLERS.get(kind, ())):
        settings[name.lstrip("_")] = to_plain_value(_attribute(value, name))
    return settings


def _parts(value: object) -> Mapping[str, object]:
    """Return the fields of options or of an operation of Grain; none of a class of the user's."""
    if not _is_grains(type(value)) or not is_dataclass(value):
        return {}
    return {one.name: _attribute(value, one.name) for one in fields(value)}


def _length(dataset: object) -> Mapping[str, PlainValue]:
    """Ask for the number of elements, as Grain does for a shuffle, if the source can tell."""
    try:
        return {"length": len(dataset)}  # type: ignore[arg-type]  # what has none raises
    except Exception:  # noqa: BLE001  # what a user's source raises is for it to choose
        return {}


# ---- What of it is the user's

_REPLACEABLE: Final = ("_map_fn", "_batch_fn", "_source")


def replace_user_code(dataset: object, by: Callable[[Any], Any]) -> bool:
    """Replace the function or the source that a dataset calls, if it is one that can be replaced.

    Args:
        dataset: It is changed, and must not be one whose workers have been started.
        by: Returns what takes the place of the function or of the source.

    Returns:
        Whether there was one: a map's, a batch's or a source's.
    """
    for attribute in _REPLACEABLE:
        value = vars(dataset).get(attribute)
        if value is not None and not _is_grains(type(value)):
            setattr(dataset, attribute, by(value))
            return True
    return False


def _functions(dataset: object) -> Iterator[object]:
    """Yield the functions and objects of the user that a dataset calls."""
    if _is_unknown(dataset):
        yield dataset
    for attribute in _USERS:
        value = _users(_attribute(dataset, attribute))
        if value is not None:
            yield from _parts(value).values() or (value,)


def _users(value: object) -> object:
    """Return what of the user's a DataLoader has put into a function or an object of its own."""
    module = _attribute(value, "__module__")
    if type(module) is not str or not module.startswith("grain._src.python.data_loader"):
        return value
    within = (
        closure_variables(value).get("transform"),
        _attribute(value, "_transform"),
        _attribute(value, "values_batch_fn"),
    )
    return next((one for one in within if one is not None), value)
