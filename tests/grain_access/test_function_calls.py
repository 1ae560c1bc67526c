"""Calls of jax, and of its ways to put arrays on a device, in the functions of a pipeline."""

import functools
import importlib
import importlib.util
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import grain
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import device_put as put_by_another_name
from jax import random as jax_random

from netpipe.grain_access.function_calls import puts_on_device, uses_jax
from netpipe.grain_access.reader import read_graph

DEVICE = jax.devices()[0]


def plain(element: Any) -> Any:
    """Use numpy alone."""
    return np.asarray(element) + 1


def direct(element: Any) -> Any:
    """Use a module of jax."""
    return jnp.sum(element)


def at_two_levels(element: Any) -> Any:
    """Use a function that uses one that uses jax."""
    return (lambda: direct(element))()


def within(element: Any) -> Any:
    """Import jax when it is called."""
    import jax.numpy as late

    return late.sum(element)


def trees(element: Any) -> Any:
    """Use functions that need no device."""
    return jax.tree.map(np.asarray, jax.tree_util.tree_map(np.asarray, element))


def same_name(element: Any) -> Any:
    """Have attributes and locals with the names of modules of jax."""
    jnp = element
    return element.jax_random + jnp + (lambda: jnp)()


def key(element: Any) -> Any:
    """Use a module of jax by another name."""
    return jax_random.fold_in(jax_random.key(0), element)


def recursive(element: int) -> Any:
    """Call this function recursively."""
    return recursive(element - 1) if element else element


@jax.jit
def compiled(element: Any) -> Any:
    """Do nothing, compiled."""
    return element + 1


def put(element: Any) -> Any:
    """Put an element on a device."""
    return jax.device_put(element, DEVICE)


class Transform(grain.transforms.Map):  # type: ignore[misc]  # grain is untyped
    """A transform that uses jax in a method and in a function that it holds."""

    def __init__(self, work: Callable[[Any], Any]) -> None:
        self.work = work

    def map(self, element: Any) -> Any:
        """Work."""
        return self.helper(element)

    def helper(self, element: Any) -> Any:
        """Work."""
        return self.work(element)

    def unused(self, element: Any) -> Any:
        """Use jax where nothing calls it."""
        return jnp.sum(element)


class Derived(Transform):
    """A transform that inherits the method."""

    def map(self, element: Any) -> Any:
        """Work."""
        return super().map(element)


class Static(grain.transforms.Map):  # type: ignore[misc]
    """A transform without state."""

    @staticmethod
    def helper(element: Any) -> Any:
        """Use jax."""
        return jnp.sum(element)

    @property
    def offset(self) -> int:
        """Fail the test: no code of the user is called."""
        raise AssertionError

    def map(self, element: Any) -> Any:
        """Work."""
        return self.helper(element) + self.offset


class Source:
    """A source that decodes with jax."""

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> Any:
        return jnp.asarray(index)


HELD = Transform(compiled)


@pytest.mark.parametrize(
    "function",
    [
        direct,
        at_two_levels,
        within,
        key,
        compiled,
        functools.lru_cache(direct),
        partial(direct),
        partial(plain, DEVICE),
        jnp.sum,
        Transform(compiled),
        Transform(at_two_levels).map,
        Derived(direct),
        Static(),
        Source(),
        lambda element: HELD.map(element),
        functools.wraps(plain)(lambda element: direct(element)),
        # A type of jax makes an array when it is called.
        lambda batch: np.sum(jnp.int32(batch)),
        jnp.float32,
    ],
    ids=lambda value: getattr(value, "__name__", type(value).__name__),
)
def test_a_use_of_jax_is_found(function: object) -> None:
    """Uses in a module, function, method, object or import are found, even indirect ones."""
    assert uses_jax(function)


def named_within(batch: Any) -> Any:
    """Name a type of a module that is imported when it is called."""
    import jax.numpy as late

    return batch.astype(late.float32)


@pytest.mark.parametrize(
    "function",
    [
        plain,
        trees,
        same_name,
        recursive,
        Transform(plain),
        Transform(plain).map,
        np.sum,
        3,
        partial(plain),
        lambda batch: batch.astype(jnp.bfloat16),
        lambda batch: isinstance(batch, jax.Array),
        lambda batch: jax.ShapeDtypeStruct(batch.shape, batch.dtype),
        lambda batch: batch.astype(jnp.dtype("bfloat16")),
        partial(np.asarray, dtype=jnp.float32),
        named_within,
    ],
    ids=lambda value: getattr(value, "__name__", type(value).__name__),
)
def test_trees_and_types_do_not_count(function: object) -> None:
    """Neither does an attribute of the same name, or a method that nothing calls."""
    assert not uses_jax(function)


def test_the_nodes_of_a_pipeline_say_whether_they_use_jax() -> None:
    """A map, a batch, a source or an operation of a DataLoader may call it; Grain may too."""
    base = grain.MapDataset.source(Source())
    dataset = base.map(plain).map(Transform(direct)).to_iter_dataset().batch(2, batch_fn=direct)
    assert [node.uses_jax for node in read_graph(dataset).nodes] == [True, False, True, False, True]
    loader = grain.load(range(8), transformations=[Transform(direct), Transform(plain)])
    assert [node.uses_jax for node in read_graph(loader).of_kind("Map")] == [False, False, True]
    by_grain = grain.MapDataset.range(8).to_iter_dataset().batch(2)
    assert {node.uses_jax for node in read_graph(by_grain).nodes} == {False}


# ---- Putting arrays on a device


def imported_by_another_name(batch: Any) -> Any:
    """Import the function when it is called."""
    from jax import device_put as put

    return put(batch)


def imported_for_a_lambda(batch: Any) -> Any:
    """Import jax for a function within."""
    import jax

    return (lambda part: jax.device_put(part))(batch)


def from_a_module_not_imported(batch: Any) -> Any:
    """Name an attribute that no module has."""
    import jax.not_there as missing  # type: ignore[import-not-found]  # nor anywhere else

    return missing.device_put(batch)


def bound_first(batch: Any) -> Any:
    """Bind the function to a name."""
    put = jax.device_put
    return put(batch)


@pytest.mark.parametrize(
    "function",
    [
        jax.device_put,
        put,
        imported_by_another_name,
        imported_for_a_lambda,
        from_a_module_not_imported,
        bound_first,
        lambda element: put(element),
        lambda element: put_by_another_name(element),
        lambda element: jax.tree.map(lambda leaf: jax.device_put(leaf, DEVICE), element),
        lambda element: jax.make_array_from_process_local_data(DEVICE, element),
        partial(jax.device_put, device=DEVICE),
    ],
)
def test_device_put_is_found_however_it_is_reached(function: Callable[..., Any]) -> None:
    """The call is found through a module, a closure, another name, or an import in the function."""
    assert uses_jax(function)
    dataset = grain.MapDataset.range(8).to_iter_dataset()
    assert read_graph(dataset.map(function)).nodes[0].parameters["device_put"]


class Loader:
    """A class with the names of jax's functions for its own attributes."""

    device_put_batches = 3

    def __init__(self) -> None:
        self.device_put = False

    def map(self, element: Any) -> Any:
        """Use both names."""
        return element if self.device_put else np.repeat(element, self.device_put_batches)


def device_put_nothing(batch: Any) -> Any:
    """Do nothing."""
    return batch


@pytest.mark.parametrize(
    "function",
    [
        direct,
        jnp.sum,
        partial(jnp.sum, axis=0),
        Loader(),
        Loader().map,
        lambda batch: device_put_nothing(batch),
        lambda batch: batch.device_put(),
    ],
)
def test_a_name_like_jaxs_is_not_device_put(function: object) -> None:
    """The user's names may be alike, and the code of jax's own functions is not searched."""
    assert not puts_on_device(function)


def test_grains_device_put_is_recognised() -> None:
    """Grain's own device_put is a map like any other."""
    dataset = grain.MapDataset.range(8).to_iter_dataset()
    (node,) = read_graph(grain.experimental.device_put(dataset, DEVICE)).of_kind("Map")
    assert node.parameters["device_put"]
    assert node.uses_jax


# ---- Modules

HELPERS = """
import jax
import jax.numpy as jnp

def norm(batch):
    return jnp.asarray(batch) / 2

def put(batch):
    return jax.device_put(batch)

class Norms:
    @staticmethod
    def halve(batch):
        return norm(batch)
"""
PIPELINE = """
import helpers_jax

def by_module(batch):
    return helpers_jax.norm(batch)

def by_class(batch):
    return helpers_jax.Norms.halve(batch)

def by_import(batch):
    from helpers_jax import norm
    return norm(batch)

def put(batch):
    return helpers_jax.put(batch)
"""


def loaded(name: str, text: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Import a module of a text that lies in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.py").write_text(text)
    spec = importlib.util.spec_from_file_location(name, folder / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, name, module)
    spec.loader.exec_module(module)
    return module


def test_a_function_of_a_sibling_module_is_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Modules of one folder without a package are all the user's."""
    loaded("helpers_jax", HELPERS, tmp_path, monkeypatch)
    pipeline = loaded("pipeline_flat", PIPELINE, tmp_path, monkeypatch)
    functions = [pipeline.by_module, pipeline.by_class, pipeline.by_import, pipeline.put]
    assert list(map(uses_jax, functions)) == [True] * 4
    assert list(map(puts_on_device, functions)) == [False, False, False, True]


def test_a_function_of_a_library_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The user cannot change the code of an installed library."""
    loaded("helpers_jax", HELPERS, tmp_path / "site-packages", monkeypatch)
    pipeline = loaded("pipeline_flat", PIPELINE, tmp_path, monkeypatch)
    assert not uses_jax(pipeline.by_module)


def test_a_function_typed_at_a_prompt_is_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The function has no file, but is the user's."""
    prompt = ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", prompt)
    exec(compile(HELPERS, "<stdin>", "exec"), vars(prompt))
    assert uses_jax(lambda batch: prompt.norm(batch))


# ---- Odd objects


def wraps_itself(element: Any) -> Any:
    """Do nothing."""
    return element


vars(wraps_itself)["__wrapped__"] = wraps_itself


class Hidden(grain.transforms.Map):  # type: ignore[misc]  # grain is untyped
    """A class that hides its module."""

    __module__ = property(lambda _: 1 / 0)

    def map(self, element: Any) -> Any:
        """Do nothing."""
        return element

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> int:
        return index


class Proxy:
    """Raises when it is used, like a proxy without an object."""

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        raise RuntimeError

    def __call__(self, element: Any) -> Any:
        """Do nothing."""
        return element


PROXY = Proxy()


@pytest.mark.parametrize(
    "odd",
    [
        lambda: wraps_itself,
        Hidden,
        lambda: lambda element: PROXY(element),
        lambda: partial(PROXY),
    ],
    ids=["wraps itself", "hidden", "names a proxy", "partial of a proxy"],
)
def test_an_odd_object_of_the_user_is_read(odd: Any) -> None:
    """Odd objects do not keep a pipeline from being read."""
    dataset = grain.MapDataset.range(8).map(odd())
    options = grain.MultiprocessingOptions(num_workers=1)
    graph = read_graph(dataset.to_iter_dataset().mp_prefetch(options))
    assert [node.uses_jax for node in graph.of_kind("Map")] == [False]


def test_an_odd_source_is_read() -> None:
    """A source with a hidden module is named without it."""
    (source,) = read_graph(grain.MapDataset.source(Hidden())).nodes
    assert source.parameters == {"source": ".Hidden", "length": 8}
