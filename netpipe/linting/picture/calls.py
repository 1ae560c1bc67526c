"""Describes a node of a pipeline as the call to Grain that the user wrote."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import gcd
from typing import Final

from netpipe.linting.graph.nodes import ENDLESS, Node, PlainValue

_METHODS: Final[Mapping[str, str]] = {
    "Slice": ".slice",
    "Shuffle": ".shuffle",
    "Repeat": ".repeat",
    "Map": ".map",
    "RandomMap": ".random_map",
    "MapWithIndex": ".map_with_index",
    "Filter": ".filter",
    "Batch": ".batch",
    "Seed": ".seed",
    "ToIter": ".to_iter_dataset",
    "ProcessPrefetch": ".mp_prefetch",
    "NoWorkers": ".mp_prefetch",
    # First-fit or best-fit: Grain has one class for both.
    "Pack": "pack",
    "Source": "source",
    "Sampler": "sampler",
    "Shard": "shard",
    "Operation": "operation",
    "Elastic": "ElasticIterator",
    "Options": "options",
    "WorkerContext": "worker context",
    "WorkerSlice": "worker slice",
    "DataLoaderState": "DataLoader state",
    "DataLoader": "DataLoader",
    "MultithreadPrefetch": "multithread_prefetch",
}

_STATIC_METHODS: Final[Mapping[str, str]] = {"Mix": "mix", "Concatenate": "concatenate"}

_NOT_CALLED: Final = ("source", "sampler")

# Written before the value of a parameter; all others are written as `name=value`.
_LABELS: Final[Mapping[str, str]] = {
    "batch_size": "",
    "count": "",
    "operation": "",
    "options": "",
    "sampler": "",
    "seed_rng_seed": "",
    "source": "",
    "transform": "",
    "buffer_size": "buffer ",
    "per_worker_buffer_size": "buffer ",
    "prefetch_buffer_size": "buffer ",
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
"""A DataLoader's own name for the number of workers, on the `mp_prefetch` that it adds."""

_OMITTED: Final = ("allow_nones", "iter_buffer_size", "reseed_each_epoch", "shuffle_bins")
# Grain sets these to functions of its own where the user gives none.
_OMITTED_DEFAULTS: Final = ("batch_fn", "selection_map")


@dataclass(frozen=True)
class Call:
    """A call to Grain.

    Attributes:
        name: ".batch", "IterDataset.mix", or "source" for a pipeline's data source.
        arguments: The settings that differ from Grain's defaults, shortened.
    """

    name: str
    arguments: tuple[str, ...]

    def __str__(self) -> str:
        """Return the call on one line."""
        arguments = ", ".join(self.arguments)
        if self.name in _NOT_CALLED:
            return f"{self.name} {arguments}".rstrip()
        return f"{self.name}({arguments})"


def describe_call(node: Node) -> Call:
    """Return the call that makes a node."""
    if node.kind == "Source" and "stop" in node.parameters:
        return Call("source", (_range(node.parameters),))
    if node.kind == "ProcessPrefetch" and WORKER_COUNT in node.parameters:
        count, buffer = map(node.parameters.get, (WORKER_COUNT, "per_worker_buffer_size"))
        return Call("DataLoader", (f"{WORKER_COUNT}={count}", f"buffer {buffer}"))
    if node.kind == "Slice":
        return Call(_METHODS["Slice"], (_span(node.parameters),))
    arguments = tuple(_arguments(node.parameters))
    if node.kind == "NoWorkers":
        arguments = (format_count(0, "worker"),)
    elif not arguments and len(node.parents) > 1:
        arguments = (format_count(len(node.parents), "dataset"),)
    return Call(_name(node), arguments)


def format_count(count: object, thing: str) -> str:
    """Return "1 worker", "1,000 elements" or "endless elements"."""
    if isinstance(count, int) and count >= ENDLESS:
        return f"endless {thing}s"
    number = f"{count:,}" if isinstance(count, int) else str(count)
    return f"{number} {thing}" if count == 1 else f"{number} {thing}s"


def _name(node: Node) -> str:
    """Return the method, or for a class of `grain.experimental` without a method, the class."""
    if node.kind in _METHODS:
        return _METHODS[node.kind]
    dataset = "MapDataset" if node.random_access else "IterDataset"
    if node.kind in _STATIC_METHODS:
        return f"{dataset}.{_STATIC_METHODS[node.kind]}"
    unknown = node.kind.removeprefix("Unknown:")
    return unknown if unknown != node.kind else f"{node.kind}{dataset}"


def _arguments(parameters: Mapping[str, PlainValue]) -> Iterator[str]:
    for name, value in parameters.items():
        if _is_omitted(name, value, parameters):
            continue
        if name in _COUNTED:
            yield format_count(value, _COUNTED[name])
        elif name == "proportions" and isinstance(value, tuple):
            yield f"proportions {_ratio(value)}"
        elif value is True:
            yield name
        else:
            yield _LABELS.get(name, f"{name}=") + _value(value)


def _is_omitted(name: str, value: PlainValue, parameters: Mapping[str, PlainValue]) -> bool:
    """Whether a setting is not set, is Grain's default, or repeats another one."""
    if value is None or value is False or value == ():
        return True
    if name == "length":
        return "num_records" in parameters
    if name == "prefetch_buffer_size":
        # Without threads nothing fills the buffer.
        return parameters.get("num_threads") == 0
    return name in _OMITTED or (name in _OMITTED_DEFAULTS and str(value).startswith("grain."))


def _ratio(shares: tuple[PlainValue, ...]) -> str:
    """Reduce proportions, which Grain scales to whole numbers: `1:2`."""
    whole = [share for share in shares if isinstance(share, int)]
    if len(whole) < len(shares):
        return _value(shares)
    return ":".join(str(share // (gcd(*whole) or 1)) for share in whole)


def _value(value: PlainValue) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(map(_value, value))})"
    if isinstance(value, float):
        return f"{value:g}"
    return _short_name(value) if isinstance(value, str) else str(value)


def _short_name(name: str) -> str:
    """Remove the module and the enclosing function, but keep the class of a method."""
    *scopes, last = name.rpartition("<locals>.")[2].split(".")
    class_name = scopes[-1:] if scopes and scopes[-1][:1].isupper() else []
    return ".".join([*class_name, last]).replace("<lambda>", "lambda")


def _range(parameters: Mapping[str, PlainValue]) -> str:
    start, stop, step = (parameters.get(name) for name in ("start", "stop", "step"))
    if step != 1:
        return f"range({start}, {stop}, {step})"
    return f"range({stop})" if start == 0 else f"range({start}, {stop})"


def _span(parameters: Mapping[str, PlainValue]) -> str:
    start, stop, step = (parameters.get(name) for name in ("start", "stop", "step"))
    if isinstance(stop, int) and stop >= ENDLESS:
        stop = ""
    return f"{start}:{stop}" if step in (None, 1) else f"{start}:{stop}:{step}"
