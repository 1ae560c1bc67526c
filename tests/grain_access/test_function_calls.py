"""What the user's functions in a pipeline call: jax, or one of its ways to a device."""

import functools
import random
from collections.abc import Callable
from functools import partial
from typing import Any

import grain
import jax
import jax.numpy as jnp
import numpy as np
import pytest
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
    """Use a function that uses one that does."""
    return one_level(element)


def one_level(element: Any) -> Any:
    """Use a function that uses jax."""
    return direct(element)


def within(element: Any) -> Any:
    """Import it only when it is called."""
    import jax.numpy as late

    return late.sum(element)


def trees(element: Any) -> Any:
    """Use what needs no device."""
    return jax.tree.map(np.asarray, jax.tree_util.tree_map(np.asarray, element))


def same_name(element: Any, rng: np.random.Generator) -> Any:
    """Have attributes and locals with the names of modules of jax."""
    jnp = element
    return rng.random() + element.jax_random + jnp + (lambda: jnp)() + random.random()


def key(element: Any) -> Any:
    """Use a module of jax by another name."""
    return jax_random.fold_in(jax_random.key(0), element)


def recursive(element: int) -> Any:
    """Call itself, and another that calls back."""
    return recursive(element - 1) if element else mutual(element)


def mutual(element: int) -> Any:
    """Call back."""
    return recursive(element)


@jax.jit
def compiled(element: Any) -> Any:
    """Be compiled."""
    return element + 1


@functools.lru_cache
def cached(element: Any) -> Any:
    """Use jax once for each element."""
    return jnp.sum(element)


def placed(element: Any) -> Any:
    """Put it on a device through a function of our own."""
    return put(element)


def put(element: Any) -> Any:
    """Put it on a device."""
    return jax.device_put(element, DEVICE)


class Transform(grain.transforms.Map):  # type: ignore[misc]  # grain is untyped
    """A transform whose work is done in a method and by what it holds."""

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
    """Does the same by way of its parent."""

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
        """Fail the test: nothing of the user's is called."""
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
        cached,
        partial(direct),
        partial(plain, DEVICE),
        jnp.sum,
        Transform(compiled),
        Transform(at_two_levels).map,
        Derived(direct),
        Static(),
        Source(),
        lambda element: jnp.sum(element),
        lambda element: (lambda: jnp.sum(element))(),
        lambda element: HELD.map(element),
        functools.wraps(plain)(lambda element: direct(element)),
    ],
    ids=lambda value: getattr(value, "__name__", type(value).__name__),
)
def test_a_use_of_jax_is_found(function: object) -> None:
    """Through a module, function, method, object or import, directly or in a called function."""
    assert uses_jax(function)


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
        len,
        3,
        partial(plain),
        lambda element: np.sum(element),
    ],
    ids=lambda value: getattr(value, "__name__", type(value).__name__),
)
def test_trees_and_types_are_no_use_of_jax(function: object) -> None:
    """Nor does an attribute of the same name count, or a method that nothing calls."""
    assert not uses_jax(function)


def test_the_nodes_of_a_pipeline_say_so() -> None:
    """A map, a batch, a source, a DataLoader or an operation may call the function."""
    base = grain.MapDataset.source(Source())
    dataset = base.map(plain).map(Transform(direct)).to_iter_dataset().batch(2, batch_fn=direct)
    assert [node.uses_jax for node in read_graph(dataset).nodes] == [True, False, True, False, True]
    loader = grain.load(range(8), transformations=[Transform(direct), Transform(plain)])
    assert [node.uses_jax for node in read_graph(loader).of_kind("Map")] == [False, False, True]


def test_grains_own_functions_do_not_count() -> None:
    """Grain itself imports jax, but its default batch function does not count as a use."""
    dataset = grain.MapDataset.range(8).to_iter_dataset().batch(2)
    assert {node.uses_jax for node in read_graph(dataset).nodes} == {False}


@pytest.mark.parametrize(
    "function",
    [
        jax.device_put,
        put,
        placed,
        partial(jax.device_put, device=DEVICE),
        lambda element: jax.device_put(element, DEVICE),
        lambda element: jax.tree.map(lambda leaf: jax.device_put(leaf, DEVICE), element),
        lambda element: jax.make_array_from_process_local_data(DEVICE, element),
    ],
)
def test_device_put_is_recognised_in_a_function(function: Callable[..., Any]) -> None:
    """A map that puts elements on a device is marked, and no other map."""
    assert puts_on_device(function)
    dataset = grain.MapDataset.range(8).to_iter_dataset()
    assert read_graph(dataset.map(function)).nodes[0].parameters["device_put"]
    assert not read_graph(dataset.map(direct)).nodes[0].parameters["device_put"]


def test_functions_of_jax_are_not_followed() -> None:
    """The code of a function of jax is not searched."""
    assert not puts_on_device(jnp.sum)
    assert not puts_on_device(partial(jnp.sum, axis=0))


def test_grains_device_put_is_recognised() -> None:
    """Grain's own device_put is a map like any other."""
    dataset = grain.MapDataset.range(8).to_iter_dataset()
    (node,) = read_graph(grain.experimental.device_put(dataset, DEVICE)).of_kind("Map")
    assert node.parameters["device_put"]
    assert node.uses_jax
