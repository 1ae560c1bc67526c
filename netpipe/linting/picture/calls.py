"""A node of a pipeline in the words of the person who wrote it: as the call to Grain."""

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
    "Pack": "pack",  # first-fit or best-fit: Grain has one class for both
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

_NOUNS: Final = ("source", "sampler")

_READS: Final[Mapping[str, str]] = {
    "batch_size": "{}",
    "count": "{}",
    "operation": "{}",
    "options": "{}",
    "sampler": "{}",
    "seed_rng_seed": "{}",
    "source": "{}",
    "transform": "{}",
    "buffer_size": "buffer {}",
    "per_worker_buffer_size": "buffer {}",
    "prefetch_buffer_size": "buffer {}",
    "seed": "seed {}",
    "window_size": "window {}",
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
"""Parameter of an `mp_prefetch` that a DataLoader has made: its own word for the workers."""

_UNSAID: Final = ("allow_nones", "iter_buffer_size", "reseed_each_epoch", "shuffle_bins")
_OFTEN_GRAINS: Final = ("batch_fn", "selection_map")


@dataclass(frozen=True)
class Call:
    """How a node was asked for.

    Attributes:
        name: ".batch", "IterDataset.mix", or "source" for what a pipeline starts from.
        arguments: Its settings, as short as they can be told.
    """

    name: str
    arguments: tuple[str, ...]

    def __str__(self) -> str:
        """Return it on one line."""
        listed = ", ".join(self.arguments)
        return f"{self.name} {listed}".rstrip() if self.name in _NOUNS else f"{self.name}({listed})"


def describe_call(node: Node) -> Call:
    """Return the call that makes a node, by what its kind and its parameters tell."""
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
    """Return "1 worker", "1,000 elements", "endless elements"."""
    if isinstance(count, int) and count >= ENDLESS:
        return f"endless {thing}s"
    number = f"{count:,}" if isinstance(count, int) else str(count)
    return f"{number} {thing}" if count == 1 else f"{number} {thing}s"


def _name(node: Node) -> str:
    """Name the method, or the class of `grain.experimental` that has none."""
    if node.kind in _METHODS:
        return _METHODS[node.kind]
    dataset = "MapDataset" if node.random_access else "IterDataset"
    if node.kind in _STATIC_METHODS:
        return f"{dataset}.{_STATIC_METHODS[node.kind]}"
    unknown = node.kind.removeprefix("Unknown:")
    return unknown if unknown != node.kind else f"{node.kind}{dataset}"


def _arguments(parameters: Mapping[str, PlainValue]) -> Iterator[str]:
    for name, value in parameters.items():
        if _unsaid(name, value, parameters):
            continue
        if name in _COUNTED:
            yield format_count(value, _COUNTED[name])
        elif name == "proportions" and isinstance(value, tuple):
            yield f"proportions {_ratio(value)}"
        elif value is True:
            yield name
        else:
            yield _READS.get(name, f"{name}={{}}").format(_value(value))


def _unsaid(name: str, value: PlainValue, parameters: Mapping[str, PlainValue]) -> bool:
    """Whether a setting says nothing: not set, Grain's own function, or told by another one."""
    if value is None or value is False or value == ():
        return True
    if name == "length":
        return "num_records" in parameters
    if name == "prefetch_buffer_size":
        return parameters.get("num_threads") == 0  # then nothing fills it
    return name in _UNSAID or (name in _OFTEN_GRAINS and str(value).startswith("grain."))


def _ratio(shares: tuple[PlainValue, ...]) -> str:
    """Undo Grain's scaling of proportions to whole numbers."""
    whole = [share for share in shares if isinstance(share, int)]
    if len(whole) < len(shares):
        return _value(shares)
    return ":".join(str(share // (gcd(*whole) or 1)) for share in whole)


def _value(value: PlainValue) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(_value(one) for one in value)})"
    if isinstance(value, float):
        return f"{value:g}"
    return _short_name(value) if isinstance(value, str) else str(value)


def _short_name(name: str) -> str:
    """Leave out the module and the function around it, not the class that a method is of."""
    *around, last = name.rpartition("<locals>.")[2].split(".")
    of_class = around[-1:] if around and around[-1][:1].isupper() else []
    return ".".join([*of_class, last]).replace("<lambda>", "lambda")


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
