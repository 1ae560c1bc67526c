"""Descriptions of the nodes of a pipeline as the calls to Grain that the user wrote."""

from collections.abc import Iterable, Iterator, Mapping
from math import gcd
from typing import Final

from netpipe.grain_access.nodes import ENDLESS, Node, PlainValue
from netpipe.results.units import format_count

_METHODS: Final = ("Slice", "Shuffle", "Repeat", "Map", "Filter", "Batch", "Seed")
# "Pack" stands for first-fit and best-fit packing, which share one class in Grain.
_PARTS: Final = ("Pack", "Source", "Sampler", "Shard", "Operation", "Options")
_NAMES: Final[Mapping[str, str]] = {
    **{kind: f".{kind.lower()}" for kind in _METHODS},
    **{kind: kind.lower() for kind in _PARTS},
    "RandomMap": ".random_map",
    "MapWithIndex": ".map_with_index",
    "ToIter": ".to_iter_dataset",
    "ProcessPrefetch": ".mp_prefetch",
    "NoWorkers": ".mp_prefetch",
    "Elastic": "ElasticIterator",
    "WorkerContext": "worker context",
    "WorkerSlice": "worker slice",
    "DataLoaderState": "DataLoader state",
    "DataLoader": "DataLoader",
    "MultithreadPrefetch": "multithread_prefetch",
}

_NOT_CALLED: Final = ("source", "sampler")

# Text in place of `name=` before the value of a parameter.
_LABELS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("batch_size", "count", "operation", "options", "sampler"), ""),
    **dict.fromkeys(("seed_rng_seed", "source", "transform"), ""),
    **dict.fromkeys(("buffer_size", "per_worker_buffer_size", "prefetch_buffer_size"), "buffer "),
    "seed": "seed ",
    "window_size": "window ",
}

_COUNTED: Final[Mapping[str, str]] = {
    "length": "element",
    "num_epochs": "epoch",
    "num_packing_bins": "bin",
    "num_records": "record",
    "num_threads": "thread",
    "num_workers": "worker",
}

WORKER_COUNT: Final = "worker_count"
"""DataLoader's name for the number of workers, kept on the `mp_prefetch` node that it adds."""

_OMITTED: Final = ("allow_nones", "iter_buffer_size", "reseed_each_epoch", "shuffle_bins")
# Grain sets these to its own functions by default.
_OMITTED_DEFAULTS: Final = ("batch_fn", "selection_map")


def describe_call(node: Node) -> str:
    """Return the call to Grain that makes a node, with settings that differ from the defaults."""
    name, arguments = _name(node), ", ".join(_describe_settings(node))
    return f"{name} {arguments}".rstrip() if name in _NOT_CALLED else f"{name}({arguments})"


def _describe_settings(node: Node) -> Iterable[str]:
    settings = node.parameters
    start, stop, step = (settings.get(bound) for bound in ("start", "stop", "step"))
    match node.kind:
        case "Source" if "stop" in settings:
            bounds = (start, stop) if step == 1 else (start, stop, step)
            numbers = (stop,) if (start, step) == (0, 1) else bounds
            return (f"range({', '.join(map(str, numbers))})",)
        case "Slice":
            end = "" if isinstance(stop, int) and stop >= ENDLESS else stop
            stride = "" if step in (None, 1) else f":{step}"
            return (f"{start}:{end}{stride}",)
        case "ProcessPrefetch" if WORKER_COUNT in settings:
            buffer = settings.get("per_worker_buffer_size")
            return (f"{WORKER_COUNT}={settings[WORKER_COUNT]}", f"buffer {buffer}")
        case "NoWorkers":
            return (format_count(0, "worker"),)
    inputs = len(node.parents)
    return tuple(_arguments(settings)) or ([format_count(inputs, "dataset")] if inputs > 1 else ())


def _name(node: Node) -> str:
    """Return the name of a node's method, or of its class if Grain has no method for it."""
    if node.kind == "ProcessPrefetch" and WORKER_COUNT in node.parameters:
        return "DataLoader"
    if node.kind in _NAMES:
        return _NAMES[node.kind]
    dataset = "MapDataset" if node.random_access else "IterDataset"
    if node.kind in ("Mix", "Concatenate"):
        return f"{dataset}.{node.kind.lower()}"
    unknown = node.kind.removeprefix("Unknown:")
    return unknown if unknown != node.kind else f"{node.kind}{dataset}"


def _arguments(settings: Mapping[str, PlainValue]) -> Iterator[str]:
    for name, value in settings.items():
        if _is_omitted(name, value, settings):
            continue
        if name in _COUNTED:
            noun = _COUNTED[name]
            is_endless = isinstance(value, int) and value >= ENDLESS
            yield f"endless {noun}s" if is_endless else format_count(value, noun)
        elif name == "proportions" and isinstance(value, tuple):
            yield f"proportions {_ratio(value)}"
        elif value is True:
            yield name
        else:
            yield _LABELS.get(name, f"{name}=") + _value(value)


def _is_omitted(name: str, value: PlainValue, settings: Mapping[str, PlainValue]) -> bool:
    """Return whether a setting is unset, is not worth showing, or follows from another one."""
    if value is None or value is False or value == ():
        return True
    if name == "length":
        return "num_records" in settings
    if name == "prefetch_buffer_size":
        # Without threads, nothing fills the buffer.
        return settings.get("num_threads") == 0
    return name in _OMITTED or (name in _OMITTED_DEFAULTS and str(value).startswith("grain."))


def _ratio(shares: tuple[PlainValue, ...]) -> str:
    """Format proportions, which Grain scales to whole numbers, in lowest terms: `1:2`."""
    whole = [share for share in shares if isinstance(share, int)]
    if len(whole) < len(shares):
        return _value(shares)
    return ":".join(str(share // (gcd(*whole) or 1)) for share in whole)


def _value(value: PlainValue) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(map(_value, value))})"
    if isinstance(value, float):
        return f"{value:g}"
    if not isinstance(value, str):
        return str(value)
    # Drop the module and the enclosing function, but keep the class of a method.
    *scopes, last = value.rpartition("<locals>.")[2].split(".")
    class_name = scopes[-1:] if scopes and scopes[-1][:1].isupper() else []
    return ".".join([*class_name, last]).replace("<lambda>", "lambda")
