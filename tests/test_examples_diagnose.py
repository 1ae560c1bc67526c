"""The foreign pipelines that diagnose is tried on: they load, the same batches every time."""

from importlib.util import module_from_spec, spec_from_file_location
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
MOST_TOKENS = {"LINES": 12, "BATCH_SIZE": 12, "LENGTH": 128}


@pytest.fixture(params=sorted(SMALL))
def example(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return an example's loader, with little data in a folder of its own."""
    return made_small(request.param, tmp_path, monkeypatch, SMALL[request.param])


def made_small(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch, sizes: dict[str, int]
) -> Any:
    """Let an example keep its files in a folder and be small; return its loader."""
    found = spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert found
    assert found.loader
    module = module_from_spec(found)
    found.loader.exec_module(module)
    for setting, value in {"CACHE": folder, **sizes}.items():
        monkeypatch.setattr(module, setting, value)
    return module.loader


def taken(loader: Any, count: int) -> list[dict[str, Any]]:
    """Return the first batches as dicts of arrays."""
    with open_iterator(loader()) as batches:
        return [one if isinstance(one, dict) else {"": one} for one in islice(batches, count)]


def test_an_example_gives_the_same_batches_again(example: Any) -> None:
    """A second run reads the files that the first one made, and gives what it gave."""
    first = taken(example, 3)
    files = {path: path.stat().st_mtime_ns for path in example.__globals__["CACHE"].iterdir()}
    second = taken(example, 3)
    assert {path: path.stat().st_mtime_ns for path in files} == files
    for one, other in zip(first, second, strict=True):
        assert one.keys() == other.keys()
        assert all(np.array_equal(one[name], other[name]) for name in one)


def test_batches_of_an_example_differ(example: Any) -> None:
    """What comes next is not what came before, and is as large."""
    one, other = taken(example, 2)
    assert not all(np.array_equal(one[name], other[name]) for name in one)
    assert {name: leaf.shape for name, leaf in one.items()} == {
        name: leaf.shape for name, leaf in other.items()
    }


def test_an_example_leaves_nothing_half_made(example: Any) -> None:
    """Beside the data there is no file."""
    taken(example, 1)
    assert len(list(example.__globals__["CACHE"].iterdir())) == 1


def test_pictures_are_as_a_network_takes_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch is float32 between -1 and 1, of the size of the cut, and not all one colour."""
    (batch,) = taken(made_small("images", tmp_path, monkeypatch, SMALL["images"]), 1)
    pixels = batch[""]
    assert (pixels.shape, pixels.dtype) == ((4, 224, 224, 3), np.float32)
    assert -1 <= pixels.min() < -0.1
    assert 0.1 < pixels.max() <= 1


def test_lines_are_cut_and_filled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tokens are within the vocabulary, and the mask is where one stands."""
    (batch,) = taken(made_small("text", tmp_path, monkeypatch, MOST_TOKENS), 1)
    tokens, mask = batch["tokens"], batch["mask"]
    assert tokens.shape == mask.shape == (12, 128)
    assert 0 < mask.mean() < 1
    assert (tokens[mask] > 0).all()
    assert (tokens[~mask] == 0).all()
    assert tokens.max() < 8_000


def test_columns_are_normalised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every column of a row group has a mean of 0 and no value is missing."""
    (batch,) = taken(made_small("table", tmp_path, monkeypatch, SMALL["table"]), 1)
    assert (batch["features"].shape, batch["features"].dtype) == ((32, 5), np.float32)
    assert np.allclose(batch["features"][:16].mean(axis=0), 0, atol=1e-5)
    assert set(np.unique(batch["label"])) <= {0, 1}
