"""Every public transform of the installed Grain, read into a graph.

Tests fail with each name that an upgrade of Grain adds, renames or removes.
"""

import importlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import grain
import jax.numpy as jnp
import pytest

from netpipe.grain_access.grain_classes import KNOWN_CLASSES
from netpipe.grain_access.nodes import Node
from netpipe.grain_access.reader import read_graph
from tests.grain_access.grain_tables import (
    EXPERIMENTAL,
    HELPERS,
    METHODS,
    ONLY_IN_A_DATA_LOADER,
    OPERATIONS,
    PLACES,
    TOP_LEVEL,
    TRANSFORMS,
    batch_of,
    loader,
    stream,
)


def public(module: ModuleType) -> set[str]:
    """Return the names that a module gives, without the modules below it."""
    names = {name for name in dir(module) if not name.startswith("_")}
    return {name for name in names if not isinstance(getattr(module, name), ModuleType)}


def methods() -> set[str]:
    """Return the public methods of both kinds of dataset, those of their metaclasses included."""
    return {
        f"{kind.__name__}.{name}"
        for kind in (grain.MapDataset, grain.IterDataset)
        for name in (*dir(kind), *vars(type(kind)))
        if not name.startswith("_")
    }


@pytest.mark.parametrize(
    ("where", "found", "table"),
    [
        ("methods", methods(), METHODS),
        ("grain", public(grain), TOP_LEVEL),
        ("grain.experimental", public(grain.experimental), EXPERIMENTAL),
        (
            "grain.transforms",
            public(grain.transforms) | {"FlatMap"},
            {**TRANSFORMS, **ONLY_IN_A_DATA_LOADER},
        ),
    ],
)
def test_the_tables_hold_all_that_grain_makes_public(
    where: str, found: set[str], table: Mapping[str, object]
) -> None:
    """The failure names each transform that Grain adds or drops."""
    helpers = set(HELPERS[where].split())
    assert found - helpers - set(table) == set(), f"new in {where} of Grain {grain.__version__}"
    assert set(table) - found == set(), f"gone from {where} of Grain {grain.__version__}"


def made() -> Iterator[Any]:
    """Yield each transform of the tables with its name in the report."""
    for table in (METHODS, EXPERIMENTAL, TOP_LEVEL):
        for name, (kind, make) in table.items():
            yield pytest.param(kind, make, id=name)
    for name, (kind, transform) in TRANSFORMS.items():
        yield pytest.param(kind, partial(PLACES.seed(1).apply, transform), id=f"MapDataset:{name}")
        yield pytest.param(
            kind, partial(stream().seed(1).apply, transform), id=f"IterDataset:{name}"
        )
    for name, (kind, operation) in OPERATIONS.items():
        yield pytest.param(kind, partial(loader, operation), id=f"DataLoader:{name}")


@pytest.mark.filterwarnings("ignore:Please use `mp_prefetch`:DeprecationWarning")
@pytest.mark.parametrize(("kind", "make"), tuple(made()))
def test_each_transform_is_read(kind: str, make: Callable[[], Any]) -> None:
    """Each public transform has a node of its kind, and no node is unknown."""
    nodes = read_graph(make()).nodes
    kinds = {node.kind for node in nodes}
    assert {kind, "Source"} <= kinds
    assert not {kind for kind in kinds if kind.startswith("Unknown:")}
    assert all(node.unpicklable == "" for node in nodes)


def operation_node(name: str) -> Node:
    """Read the node of an operation of a DataLoader with workers."""
    kind, operation = OPERATIONS[name]
    return read_graph(loader(operation)).of_kind(kind)[-1]


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("Map", {"transform": "tests.grain_access.grain_tables.Double", "device_put": False}),
        (
            "RandomMap",
            {"transform": "tests.grain_access.grain_tables.Jitter", "device_put": False},
        ),
        (
            "TfRandomMap",
            {"transform": "tests.grain_access.grain_tables.NumpyJitter", "device_put": False},
        ),
        ("Filter", {"transform": "tests.grain_access.grain_tables.Odd", "device_put": False}),
        ("FlatMap", {"transform": "tests.grain_access.grain_tables.Twice"}),
        ("MapOperation", {"map_function": "tests.grain_access.grain_tables.odd"}),
    ],
)
def test_operations_of_a_data_loader_keep_their_settings(
    name: str, parameters: Mapping[str, object]
) -> None:
    """Operations that Grain wraps in its own functions still have the user's names."""
    node = operation_node(name)
    assert node.parameters == parameters
    assert node.in_worker


@dataclass(frozen=True)
class Repeated(grain.experimental.FlatMapTransform):  # type: ignore[misc]  # grain is untyped
    """A transform of the user's whose settings are fields."""

    max_fan_out: int

    def flat_map(self, element: Any) -> list[Any]:
        """Return it some times, on a device."""
        return [jnp.asarray(element)] * self.max_fan_out


def test_a_dataclass_of_the_users_is_a_transform_like_any_other() -> None:
    """The fields are not settings of Grain's, and the method is searched for jax."""
    alone = read_graph(grain.experimental.FlatMapMapDataset(PLACES, Repeated(2))).nodes[0]
    (loaded,) = read_graph(loader(Repeated(2))).of_kind("FlatMap")
    for node in (alone, loaded):
        assert node.parameters == {"transform": f"{__name__}.Repeated"}
        assert node.uses_jax


def test_a_batch_of_a_data_loader_shows_the_users_function() -> None:
    """The node names the user's batch function, not Grain's wrapper."""
    operation = grain.transforms.Batch(2, drop_remainder=True, batch_fn=batch_of)
    (batch,) = read_graph(loader(operation)).of_kind("Batch")
    assert batch.parameters == {
        "batch_size": 2,
        "drop_remainder": True,
        "batch_fn": "tests.grain_access.grain_tables.batch_of",
    }


def dataset_classes(kind: type) -> set[type]:
    """Return all classes of Grain that derive from one."""
    derived: list[type] = kind.__subclasses__()
    grains = {kind for kind in derived if kind.__module__.startswith("grain.")}
    return grains.union(*map(dataset_classes, grains))


def test_every_dataset_class_of_the_installed_grain_has_a_kind() -> None:
    """The failure also names each private class that Grain adds or drops."""
    root = Path(grain.__file__).parent.parent
    for file in (root / "grain/_src/python").rglob("*.py"):
        if not file.stem.endswith(("_test", "testing_util")) and "Dataset" in file.read_text():
            importlib.import_module(".".join(file.relative_to(root).with_suffix("").parts))
    names = {kind.__name__ for kind in dataset_classes(grain.MapDataset)}
    names |= {kind.__name__ for kind in dataset_classes(grain.IterDataset)}
    folded_or_helping = {
        "_ElementSpecFromTransformMapDatasetMixin",
        "_ElementSpecFromTransformIterDatasetMixin",
        "_OutputIterDataset",  # wraps iterators, never part of a graph
        "ProcessPrefetchIterDataset",  # folded into the node of mp_prefetch
        "FirstFitPackIterDataset",  # a PackIterDataset, as the next one
        "BestFitPackIterDataset",
    }
    assert names - folded_or_helping - set(KNOWN_CLASSES) == set(), "new in Grain"
    assert set(KNOWN_CLASSES) - names == set(), "gone from Grain"


def datasets_below(dataset: Any) -> Iterator[Any]:
    """Yield a dataset and those below it, as Grain links them."""
    yield dataset
    inner: tuple[Any, ...] = (*dataset.parents, *getattr(dataset, "_datasets", ()))
    for parent in inner:
        yield from datasets_below(parent)


@pytest.mark.filterwarnings("ignore:Please use `mp_prefetch`:DeprecationWarning")
@pytest.mark.parametrize(("kind", "make"), tuple(made()))
def test_every_setting_is_still_where_grain_keeps_it(kind: str, make: Callable[[], Any]) -> None:
    """The failure names each attribute that Grain renames."""
    del kind
    dataset = make()
    root: Any = getattr(dataset, "_dataset", dataset)
    for part in datasets_below(root):
        _, attributes = KNOWN_CLASSES.get(type(part).__name__, ("", ()))
        assert [name for name in attributes if not hasattr(part, name)] == [], type(part)
