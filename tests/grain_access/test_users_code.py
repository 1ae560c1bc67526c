"""Following the user's functions through modules, names and imports, whatever they are like."""

import importlib
import importlib.util
import sys
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

from netpipe.grain_access.function_calls import puts_on_device, uses_jax
from netpipe.grain_access.reader import read_graph

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


@pytest.mark.parametrize("name", ["by_module", "by_class", "by_import", "put"])
def test_a_function_of_a_sibling_module_is_followed(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Modules of one folder without a package are all the user's."""
    loaded("helpers_jax", HELPERS, tmp_path, monkeypatch)
    function = vars(loaded("pipeline_flat", PIPELINE, tmp_path, monkeypatch))[name]
    assert uses_jax(function)
    assert puts_on_device(function) == (name == "put")


def test_a_function_of_a_library_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The user cannot change the code of an installed library."""
    loaded("helpers_jax", HELPERS, tmp_path / "site-packages", monkeypatch)
    pipeline = loaded("pipeline_flat", PIPELINE, tmp_path, monkeypatch)
    assert not uses_jax(pipeline.by_module)


def test_a_function_typed_at_a_prompt_is_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has no file, but is the user's."""
    prompt = ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", prompt)
    exec(compile(HELPERS, "<stdin>", "exec"), vars(prompt))
    assert uses_jax(lambda batch: prompt.norm(batch))


def imported_within(batch: Any) -> Any:
    """Import jax when it is called."""
    import jax

    return jax.device_put(batch)


def imported_by_another_name(batch: Any) -> Any:
    """Import the function when it is called."""
    from jax import device_put as put

    return put(batch)


def imported_for_a_lambda(batch: Any) -> Any:
    """Import jax for a function within."""
    import jax

    return (lambda part: jax.device_put(part))(batch)


def from_a_module_not_imported(batch: Any) -> Any:
    """Name what is in no module that is there."""
    import jax.not_there as missing  # type: ignore[import-not-found]  # nor anywhere else

    return missing.device_put(batch)


def bound_first(batch: Any) -> Any:
    """Bind the function to a name."""
    put = jax.device_put
    return put(batch)


@pytest.mark.parametrize(
    "function",
    [
        imported_within,
        imported_by_another_name,
        imported_for_a_lambda,
        from_a_module_not_imported,
        bound_first,
        lambda batch: put_by_another_name(batch),
        lambda batch: __import__("jax").device_put(batch),
        lambda batch: importlib.import_module("jax").device_put(batch),
        partial(jax.device_put, device=None),
    ],
)
def test_device_put_is_found_however_it_is_reached(function: object) -> None:
    """Through a module, a closure, another name, or an import within the function."""
    assert puts_on_device(function)
    assert uses_jax(function)


class Loader:
    """Has the names of jax's functions for things of its own."""

    device_put_batches = 3

    def __init__(self) -> None:
        self.device_put = False

    def map(self, element: Any) -> Any:
        """Ask for both."""
        return element if self.device_put else np.repeat(element, self.device_put_batches)


def device_put_nothing(batch: Any) -> Any:
    """Do nothing."""
    return batch


@pytest.mark.parametrize(
    "function",
    [
        Loader(),
        Loader().map,
        device_put_nothing,
        lambda batch: device_put_nothing(batch),
        lambda batch: batch.device_put(),
    ],
)
def test_a_name_like_jaxs_is_no_device_put(function: object) -> None:
    """Attributes and functions of the user may have such names."""
    assert not puts_on_device(function)


def named_within(batch: Any) -> Any:
    """Name a type of a module that is imported when it is called."""
    import jax.numpy as late

    return batch.astype(late.float32)


@pytest.mark.parametrize(
    "function",
    [
        lambda batch: batch.astype(jnp.bfloat16),
        lambda batch: np.asarray(batch, dtype=jnp.float32),
        lambda batch: isinstance(batch, jax.Array),
        lambda batch: jax.ShapeDtypeStruct(batch.shape, batch.dtype),
        lambda batch: batch.astype(jnp.dtype("bfloat16")),
        partial(np.asarray, dtype=jnp.float32),
        named_within,
    ],
)
def test_a_type_of_jax_is_no_use_of_it(function: object) -> None:
    """Naming a type computes nothing."""
    assert not uses_jax(function)


@pytest.mark.parametrize(
    "function",
    [lambda batch: jnp.float32(batch), lambda batch: np.sum(jnp.int32(batch)), jnp.float32],
)
def test_a_type_of_jax_that_is_called_makes_an_array(function: object) -> None:
    """Calling it converts an array."""
    assert uses_jax(function)


def wraps_itself(element: Any) -> Any:
    """Do nothing."""
    return element


vars(wraps_itself)["__wrapped__"] = wraps_itself


class Hidden(grain.transforms.Map):  # type: ignore[misc]  # grain is untyped
    """A class whose module is nobody's business."""

    __module__ = property(lambda _: 1 / 0)

    def map(self, element: Any) -> Any:
        """Do nothing."""
        return element

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> int:
        return index


class Proxy:
    """Stands for something that is not there now."""

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
    assert len(graph.of_kind("Map")) == 1
    assert not graph.of_kind("Map")[0].uses_jax


def test_an_odd_source_is_read() -> None:
    """A source with a hidden module is named without it."""
    (source,) = read_graph(grain.MapDataset.source(Hidden())).nodes
    assert source.parameters == {"source": ".Hidden", "length": 8}
