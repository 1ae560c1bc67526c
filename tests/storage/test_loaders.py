"""Loaders in a storage: which ones can be placed, and the messages for the others."""

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from inspect import signature
from pathlib import Path
from typing import Any

import grain
import numpy as np
import pytest

from fixtures.workload import load
from netpipe.errors import MisuseError
from netpipe.grain_access.loader_variants import takes_parameters
from netpipe.grain_access.reader import collect_datasets, read_graph
from netpipe.grain_access.worker_start import let_grain_start_workers
from netpipe.jobs.registry import make_factory
from netpipe.jobs.targets import Target
from netpipe.storage.emulated_storage import _CACHED_BYTES, share
from netpipe.storage.stand_in import StandIn, place
from netpipe.workload.config import Config
from netpipe.workload.preparation.synthetic import generate
from tests.storage import sources

FAST = "local-nvme,latency=1us,tail=0s"


def sources_of(made: Any) -> list[Any]:
    """Return the wrapped sources of a Grain pipeline."""
    datasets = collect_datasets(made)
    return [datasets[node.id]._source for node in read_graph(made).of_kind("Source")]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "loader",
    [sources.batches, sources.in_workers, sources.mixed, sources.data_loader, sources.elastic,
     sources.shared],
)  # fmt: skip
def test_the_sources_of_a_grain_pipeline_are_replaced(loader: Callable[[], Any]) -> None:
    """All sources are replaced, once per call of the factory."""
    make = place(loader, FAST)
    for _ in range(2):
        found = sources_of(make())
        assert found
        for source in found:
            assert type(source) is StandIn
            assert type(source._source) is sources.Rows
    assert make.netpipe_storage in ("local", "remote")  # type: ignore[attr-defined]


@pytest.mark.parametrize("loader", [sources.batches, sources.data_loader])
def test_batches_stay_the_same(loader: Callable[[], Any]) -> None:
    """A loader in a storage yields the same batches."""
    placed, original = (list(make()) for make in (place(loader, FAST), loader))
    assert len(placed) == len(original) > 0
    for batch, expected in zip(placed, original, strict=True):
        np.testing.assert_array_equal(batch, expected)


def test_sources_of_grain_are_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """A source that Grain provides is replaced like any other."""
    monkeypatch.setattr(sources.Rows, "__module__", "grain.sources")
    (source,) = sources_of(place(sources.batches, FAST)())
    assert type(source) is StandIn


def test_workers_share_the_storage_of_their_loader() -> None:
    """Both workers read their half into one cache, which the training process sees."""
    let_grain_start_workers()
    made = place(sources.in_workers, f"{FAST},cache=1GB")()
    (source,) = sources_of(made)
    rows = [batch[:, 0].tolist() for batch in made]
    assert rows == [
        list(range(first + worker, first + 20, 2))
        for first in range(0, 100, 20)
        for worker in (0, 1)
    ]
    assert source._service._state[_CACHED_BYTES] >= 100 * 8000


def test_a_loader_that_wraps_its_source_has_placed_it() -> None:
    """A factory that wraps its source may return any iterable, and keeps `workers`."""
    make = place(sources.plain, FAST)
    assert takes_parameters(make, "workers")
    assert signature(make).parameters["workers"].default == 0
    assert next(make(workers=5))[0] == 5


@pytest.mark.parametrize(
    ("loader", "found"),
    [
        (sources.stream, "generator"),
        (lambda: [1, 2], "list"),
        (sources.computed, "a source that is a stream, computed or a list"),
        (sources.of_names, "a source that is a stream, computed or a list"),
        (sources.half_own, "a source that is a stream, computed or a list"),
        (
            lambda: grain.experimental.ParquetIterDataset("none.parquet"),
            "a source that is a stream, computed or a list",
        ),
    ],
)
def test_other_loaders_are_told_what_to_wrap(loader: Callable[[], Any], found: str) -> None:
    """A loader with reads that cannot be placed is refused, with the call that helps."""
    with pytest.raises(MisuseError) as refused:
        place(loader, FAST)()
    assert f"found {found}. " in str(refused.value)
    assert str(refused.value).startswith(f"storage {FAST}: the loader must be a Grain pipeline")
    assert str(refused.value).endswith("wrap its sources: netpipe.storage.stand_in(source)")


def test_an_unknown_storage_is_refused_at_once() -> None:
    """An unknown storage is refused before the loader is made."""
    with pytest.raises(MisuseError, match="storage must be one of"):
        place(sources.batches, "bucket")


def test_a_target_is_placed_in_its_storage() -> None:
    """A target is placed in its storage, and an unknown storage is refused."""
    target = Target("tests.storage.sources", "plain", storage=FAST)
    assert make_factory(target).__wrapped__ is sources.plain  # type: ignore[attr-defined]
    with pytest.raises(MisuseError, match=r"storage must be one of .*; found 'x'"):
        make_factory(replace(target, storage="x"))


def test_this_repositorys_pipeline_is_placed(tmp_path: Path) -> None:
    """The rows, which are read several at once, come from the storage."""
    generate(tmp_path / "data", probes=30)
    pipeline = replace(Config().pipeline, workers=0)
    cached = f"{FAST},cache=1GB"
    with closing(iter(place(lambda: load(tmp_path / "data", pipeline), cached)())) as batches:
        assert next(batches)["inputs"].shape == (8, 256)
    assert share(cached)._state[_CACHED_BYTES] > 0
