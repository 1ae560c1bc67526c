"""Grain datasets inside a loader that is not Grain's own class, such as kauldron's pipelines.

Attributes are only looked up in `vars()`: no property and no method of the user's is run.
"""

from collections.abc import Iterator, Mapping
from functools import cached_property

from netpipe.linting.graph.grain_classes import is_dataset, unpack_data_loader
from netpipe.linting.graph.nodes import module_name
from netpipe.linting.graph.reader import collect_datasets

_MAX_DEPTH = 2
_DATASETS = ("MapDataset", "IterDataset", "DataLoader")


def find_held_datasets(loader: object) -> Mapping[str, object]:
    """Return the Grain datasets that an iterable object holds, by the names of their attributes.

    Args:
        loader: What a loader factory returned.

    Returns:
        The datasets that none of the others reads from; none for an object of Grain's.
    """
    if not hasattr(type(loader), "__iter__") or module_name(type(loader)).startswith("grain."):
        return {}
    deepest_first = sorted(_attributes(loader, _MAX_DEPTH), key=lambda item: -item[0].count("."))
    # Of several names of one object, the one nearest to the loader overwrites the others.
    held = {id(dataset): (name, dataset) for name, dataset in deepest_first}
    read = {
        id(below)
        for _, dataset in held.values()
        for below in collect_datasets(dataset).values()
        if below is not dataset
    }
    return {name: dataset for number, (name, dataset) in held.items() if number not in read}


def find_dataset_properties(loader: object) -> Mapping[str, str]:
    """Return the properties annotated to return a Grain dataset, with the annotated type."""
    found: dict[str, str] = {}
    for kind in reversed(type(loader).__mro__):
        for name, value in vars(kind).items():
            function = value.fget if isinstance(value, property) else None
            function = value.func if isinstance(value, cached_property) else function
            returned = getattr(function, "__annotations__", {}).get("return", "")
            text = returned if isinstance(returned, str) else getattr(returned, "__name__", "")
            if text.rpartition(".")[2] in _DATASETS:
                found[name] = text
    return found


def _attributes(holder: object, depth: int) -> Iterator[tuple[str, object]]:
    try:
        attributes = dict(object.__getattribute__(holder, "__dict__"))
    except AttributeError:  # the class has slots, or is built in
        return
    for name, value in attributes.items():
        if is_dataset(value) or unpack_data_loader(value):
            yield name, value
        elif depth > 1 and not isinstance(value, type):
            for inner, dataset in _attributes(value, depth - 1):
                yield f"{name}.{inner}", dataset
