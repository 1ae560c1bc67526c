"""Describe Grain's datasets as the nodes of a graph, from their private attributes.

Written for Grain 0.2.17 and 0.2.18; the tests name each class that another version adds or removes.
This module neither imports grain nor reads an element of a source.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Final

from netpipe.grain_access.function_calls import closure_variables, find_code, puts_on_device
from netpipe.grain_access.nodes import PlainValue, module_name, qualified_name, to_plain_value
from netpipe.grain_access.source_lines import Recording, format_line


@dataclass(frozen=True)
class DatasetInfo:
    """Description of a dataset; the first three fields are those of its `Node`.

    Attributes:
        worker_init_fn: Sent to the workers of a "ProcessPrefetch" along with the datasets.
    """

    kind: str
    parameters: Mapping[str, PlainValue]
    made_at: str
    inputs: Sequence[object]
    functions: Sequence[object] = ()
    worker_init_fn: object = None


def unpack_data_loader(loader: object) -> tuple[object, Mapping[str, PlainValue]] | None:
    """Return a DataLoader's dataset and its worker settings; None for any other object."""
    if "DataLoader" not in _grain_names(loader):
        return None
    settings = _setting("", _attribute(loader, "multiprocessing_options"))
    return _attribute(loader, "_dataset"), settings


def describe_requested_workers(dataset: object, recording: Recording) -> DatasetInfo | None:
    """Describe the workers that a dataset requests, if no other dataset represents them.

    An ElasticIterator starts its workers when it is iterated, and runs entirely in them.
    """
    called_at = recording.without_workers_at(dataset)
    if called_at is not None:
        return DatasetInfo("NoWorkers", {}, called_at, (dataset,))
    options = _attribute(dataset, "_multiprocessing_options")
    if _shape(dataset)[0] != "Elastic" or options is None:
        return None
    made_at = recording.made_at(dataset)
    if not _attribute(options, "num_workers"):
        return DatasetInfo("NoWorkers", {}, made_at, (dataset,))
    settings = {**_setting("", options), "sequential_slice": False}
    return DatasetInfo("ProcessPrefetch", settings, made_at, (dataset,))


def describe_dataset(dataset: object, recording: Recording) -> DatasetInfo:
    """Describe a dataset; a class outside `KNOWN_CLASSES` gets the kind "Unknown:<class>"."""
    made_at = recording.made_at(dataset)
    if workers := _branches(dataset, "ProcessPrefetchIterDataset"):
        return DatasetInfo(
            "ProcessPrefetch",
            _worker_settings(workers),
            made_at,
            _shared_inputs(workers),
            worker_init_fn=_attribute(workers[0], "_worker_init_fn"),
        )
    if threads := _branches(dataset, "_MpContextIterDataset"):
        buffer_size = to_plain_value(_attribute(dataset, "_iter_buffer_size"))
        parameters = {"num_threads": len(threads), "buffer_size": buffer_size}
        # Each thread has a copy of the same graph.
        return DatasetInfo("MultithreadPrefetch", parameters, made_at, _shared_inputs(threads[:1]))
    kind, settings = _shape(dataset)[0], _read_settings(dataset)
    functions = [dataset] if kind.startswith("Unknown:") else []
    for attribute in _USER_CODE:
        given = _attribute(dataset, attribute)
        value = _unwrap_user_code(given)
        # One call makes all operations of a DataLoader, but each has its own code.
        is_of_loader = value is not given or kind == "Operation"
        if made_at and is_of_loader and (code := find_code(value)):
            made_at = format_line(code, code.co_firstlineno)
        if value is not None:
            functions.extend(_read_grain_fields(value).values() or [value])
    return DatasetInfo(kind, settings, made_at, _inputs(dataset), functions)


# The kind of node for each of Grain's classes, and the attributes that hold its settings.
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
_USER_CODE: Final = ("_map_fn", "_filter_fn", "_transform", "_batch_fn", "operation", "_source")
_SAMPLERS: Final[Mapping[str, tuple[str, ...]]] = {
    "IndexSampler": ("_num_records", "_shuffle", "_num_epochs", "_seed"),
    "SequentialSampler": ("_num_records", "_seed"),
}


def is_dataset(value: object) -> bool:
    """Return whether a value is a MapDataset or an IterDataset."""
    return not {"MapDataset", "IterDataset"}.isdisjoint(_grain_names(value))


def is_random_access(dataset: object) -> bool:
    """Return whether a dataset is a MapDataset."""
    return "MapDataset" in _grain_names(dataset)


def _grain_names(value: object) -> list[str]:
    """Return the names of an object's Grain classes, nearest first; users may subclass them."""
    return [kind.__name__ for kind in type(value).__mro__ if _is_grain_class(kind)]


def _is_grain_class(kind: type) -> bool:
    return module_name(kind).partition(".")[0] == "grain"


def _shape(dataset: object) -> tuple[str, tuple[str, ...]]:
    known = (KNOWN_CLASSES[name] for name in _grain_names(dataset) if name in KNOWN_CLASSES)
    return next(known, (f"Unknown:{type(dataset).__name__}", ()))


def _attribute(value: object, name: str) -> object:
    """Return an attribute; None if there is none, or if a user's property raises an error."""
    with suppress(Exception):
        return getattr(value, name, None)
    return None


# ---- The inputs of a dataset


def _inputs(dataset: object) -> Sequence[object]:
    """Return the inputs of a dataset; a lazy list of datasets is not iterated."""
    parents = _datasets_in(_attribute(dataset, "parents"))
    # A user's class may use these attribute names for other things.
    is_unknown = _shape(dataset)[0].startswith("Unknown:")
    if not _is_grain_class(type(dataset)) and (parents or is_unknown):
        return parents
    datasets, *single = (_attribute(dataset, name) for name in ("_datasets", "_ds", "_source"))
    candidates = (datasets, *((value,) for value in (datasets, *single)))
    return next(filter(None, map(_datasets_in, candidates)), parents)


def _datasets_in(value: object) -> Sequence[object]:
    given = value if type(value) in (list, tuple) else ()
    return [item for item in given if is_dataset(item)]  # type: ignore[attr-defined]


def _branches(dataset: object, kind: str) -> Sequence[object]:
    """Return a dataset of this kind, or the inputs of an Interleave if all are of this kind."""
    if kind in _grain_names(dataset):
        return (dataset,)
    inner = _inputs(dataset) if _shape(dataset)[0] == "Interleave" else ()
    return inner if all(kind in _grain_names(branch) for branch in inner) else ()


def _shared_inputs(branches: Sequence[object]) -> Sequence[object]:
    """Return the user's datasets that the branches read, without Grain's wrappers."""
    shared: dict[int, object] = {}
    for branch in branches:
        datasets = _inputs(branch)
        while len(datasets) == 1 and _shape(datasets[0])[0] in _WORKER_WRAPPERS:
            datasets = _inputs(datasets[0])
        shared |= {id(dataset): dataset for dataset in datasets}
    return tuple(shared.values())


# ---- The settings of a dataset


def _read_settings(dataset: object) -> Mapping[str, PlainValue]:
    settings: dict[str, PlainValue] = {}
    kind, attributes = _shape(dataset)
    for attribute in attributes:
        settings |= _setting(attribute, _unwrap_user_code(_attribute(dataset, attribute)))
    if kind == "Source" and is_random_access(dataset):
        # A user's source may have no length, and its `__len__` may raise anything.
        with suppress(Exception):
            settings["length"] = len(dataset)  # type: ignore[arg-type]
    return settings


def _worker_settings(workers: Sequence[object]) -> Mapping[str, PlainValue]:
    # With several workers, each has a context with a slice below it.
    slices = [part for context in _inputs(workers[0]) for part in _inputs(context)]
    return {
        "num_workers": len(workers),
        "per_worker_buffer_size": to_plain_value(_attribute(workers[0], "_buffer_size")),
        "sequential_slice": any(_attribute(part, "_sequential_slice") is True for part in slices),
    }


def _setting(attribute: str, value: object) -> dict[str, PlainValue]:
    if attribute in ("_map_fn", "_filter_fn"):
        return {"transform": qualified_name(value), "device_put": puts_on_device(value)}
    if attribute == "_source":  # only the name: a list would be the user's data
        return {"source": qualified_name(value)}
    if values := _read_grain_fields(value):
        public = (name for name in values if not name.startswith("_"))
        return {name: to_plain_value(values[name]) for name in public}
    settings = {attribute.lstrip("_"): to_plain_value(value)}
    for name in (name for kind in _grain_names(value) for name in _SAMPLERS.get(kind, ())):
        settings[name.lstrip("_")] = to_plain_value(_attribute(value, name))
    return settings


def _read_grain_fields(value: object) -> Mapping[str, object]:
    if not _is_grain_class(type(value)) or not is_dataclass(value):
        return {}
    return {field.name: _attribute(value, field.name) for field in fields(value)}


# ---- The user's code in a dataset


def replace_user_code(dataset: object, by: Callable[[Any], Any]) -> bool:
    """Replace a dataset's map function, batch function or source; return whether it has one.

    The dataset's workers must not have been started. `by` takes the function or the source and
    returns its replacement.
    """
    for attribute in ("_map_fn", "_batch_fn", "_source"):
        value = vars(dataset).get(attribute)
        if value is not None and not _is_grain_class(type(value)):
            setattr(dataset, attribute, by(value))
            return True
    return False


def replace_source(dataset: object, by: Callable[[Any], Any]) -> bool:
    """Replace the source that a dataset reads, even Grain's own; return whether it reads one."""
    reads_one = _shape(dataset)[0] == "Source" and "_source" in vars(dataset)
    if reads_one:
        vars(dataset)["_source"] = by(vars(dataset)["_source"])
    return reads_one


def _unwrap_user_code(value: object) -> object:
    """Return the user's function or object, without a DataLoader's wrapper around it."""
    module = _attribute(value, "__module__")
    if type(module) is not str or not module.startswith("grain._src.python.data_loader"):
        return value
    user_code = (
        closure_variables(value).get("transform"),
        _attribute(value, "_transform"),
        _attribute(value, "values_batch_fn"),
    )
    return next((part for part in user_code if part is not None), value)
