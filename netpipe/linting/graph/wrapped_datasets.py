"""Grain datasets inside a loader that is not Grain's own class, as kauldron's pipelines hold them.

Attributes are looked up in `vars()` alone: no property and no method of the user's is run.
"""

from collections.abc import Iterator, Mapping
from functools import cached_property

from netpipe.linting.graph.grain_classes import is_dataset, unpack_data_loader
from netpipe.linting.graph.nodes import module_name
from netpipe.linting.graph.reader import collect_datasets

_DEPTH = 2
_DATASETS = ("MapDataset", "IterDataset", "DataLoader")


def find_held_datasets(loader: object) -> Mapping[str, object]:
    """Return the Grain datasets that an iterable object holds, by the names of their attributes.

    Args:
        loader: What a loader factory returned.

    Returns:
        Those that no other one of them reads from; none for an object of Grain's.
    """
    if not hasattr(type(loader), "__iter__") or module_name(type(loader)).startswith("grain."):
        return {}
    deepest_first = sorted(_attributes(loader, _DEPTH), key=lambda one: -one[0].count("."))
    # An object that has several names is known by the one nearest to the loader.
    found = {id(one): (name, one) for name, one in deepest_first}
    read = {id(below) for _, one in found.values() for below in _below(one)}
    return {name: one for number, (name, one) in found.items() if number not in read}


def find_dataset_properties(loader: object) -> Mapping[str, str]:
    """Return the properties whose annotations promise a Grain dataset: the type by the name."""
    found: dict[str, str] = {}
    for kind in reversed(type(loader).__mro__):
        for name, value in vars(kind).items():
            function = value.fget if isinstance(value, property) else None
            function = value.func if isinstance(value, cached_property) else function
            promised = getattr(function, "__annotations__", {}).get("return", "")
            text = promised if isinstance(promised, str) else getattr(promised, "__name__", "")
            if text.rpartition(".")[2] in _DATASETS:
                found[name] = text
    return found


def _attributes(value: object, depth: int) -> Iterator[tuple[str, object]]:
    try:
        attributes = dict(object.__getattribute__(value, "__dict__"))
    except AttributeError:  # it has slots, or is of a built-in class
        return
    for name, one in attributes.items():
        if is_dataset(one) or unpack_data_loader(one):
            yield name, one
        elif depth > 1 and not isinstance(one, type):
            yield from ((f"{name}.{inner}", found) for inner, found in _attributes(one, depth - 1))


def _below(dataset: object) -> Iterator[object]:
    """Yield the datasets that a dataset reads from."""
    return (one for one in collect_datasets(dataset).values() if one is not dataset)
