"""The example pipelines of diagnose load the same batches every time."""

import runpy
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from netpipe.grain_access.dataset_variants import open_iterator

EXAMPLES = Path(__file__).parents[1] / "examples" / "diagnose"
SMALL = {
    "images": {"PICTURES": 6, "BATCH_SIZE": 4},
    "text": {"LINES": 12, "BATCH_SIZE": 4},
    "table": {"ROW_GROUPS": 3, "ROWS": 16, "COLUMNS": 5},
}


@pytest.fixture
def load(tmp_path: Path) -> Any:
    """Return a function that makes an example's loader, with little data in a folder of its own."""

    def load(name: str, **sizes: int) -> Any:
        module = runpy.run_path(str(EXAMPLES / f"{name}.py"))
        loader = module["loader"]
        loader.__globals__.update(SMALL[name] | sizes | {"CACHE": tmp_path})
        return loader

    return load


@pytest.fixture(params=sorted(SMALL))
def example(request: pytest.FixtureRequest, load: Any) -> Any:
    """Return an example's loader."""
    return load(request.param)


def taken(loader: Any, count: int) -> list[dict[str, Any]]:
    """Return the first batches as dicts of arrays."""
    with open_iterator(loader()) as batches:
        return [one if isinstance(one, dict) else {"": one} for one in islice(batches, count)]


def test_an_example_gives_the_same_batches_again(example: Any) -> None:
    """A second run reads the only file that the first one made."""
    first = taken(example, 3)
    assert len(list(example.__globals__["CACHE"].iterdir())) == 1
    files = {path: path.stat().st_mtime_ns for path in example.__globals__["CACHE"].iterdir()}
    second = taken(example, 3)
    assert {path: path.stat().st_mtime_ns for path in files} == files
    for one, other in zip(first, second, strict=True):
        assert one.keys() == other.keys()
        assert all(np.array_equal(one[name], other[name]) for name in one)


def test_batches_of_an_example_differ(example: Any) -> None:
    """The next batch has the same shapes and other values."""
    one, other = taken(example, 2)
    assert not all(np.array_equal(one[name], other[name]) for name in one)
    assert {name: leaf.shape for name, leaf in one.items()} == {
        name: leaf.shape for name, leaf in other.items()
    }


def test_pictures_are_normalised(load: Any) -> None:
    """A batch is float32 between -1 and 1, has the size of the cut, and more than one colour."""
    (batch,) = taken(load("images"), 1)
    pixels = batch[""]
    assert (pixels.shape, pixels.dtype) == ((4, 224, 224, 3), np.float32)
    assert -1 <= pixels.min() < -0.1
    assert 0.1 < pixels.max() <= 1


def test_lines_are_cut_and_padded(load: Any) -> None:
    """Tokens are within the vocabulary, and the mask marks them."""
    (batch,) = taken(load("text", BATCH_SIZE=12, LENGTH=128), 1)
    tokens, mask = batch["tokens"], batch["mask"]
    assert tokens.shape == mask.shape == (12, 128)
    assert 0 < mask.mean() < 1
    assert (tokens[mask] > 0).all()
    assert (tokens[~mask] == 0).all()
    assert tokens.max() < 8_000


def test_columns_are_normalised(load: Any) -> None:
    """Every column of a row group has a mean of 0, and no value is missing."""
    (batch,) = taken(load("table"), 1)
    assert (batch["features"].shape, batch["features"].dtype) == ((32, 5), np.float32)
    assert np.allclose(batch["features"][:16].mean(axis=0), 0, atol=1e-5)
    assert set(np.unique(batch["label"])) <= {0, 1}
