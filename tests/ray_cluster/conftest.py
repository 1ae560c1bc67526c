"""The cluster, measurements of many slices, and the data prepared from them on this machine."""

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from netpipe.workload.preparation import plan
from netpipe.workload.preparation.prepare import prepare
from perf_tests.studies.ray_nodes import STORE_BYTES, ray_nodes
from tests.workload.factories import as_table, make_pings


@pytest.fixture(scope="session")
def cluster() -> Iterator[Any]:
    """A cluster of one node with one CPU; tests add nodes to it."""
    if find_spec("ray") is None:
        pytest.skip("tox -e ray runs this test")
    with ray_nodes(1) as running:
        yield running


@pytest.fixture
def second(cluster: Any) -> Iterator[Any]:
    """Another node with one CPU, which a test may kill."""
    node = cluster.add_node(num_cpus=1, object_store_memory=STORE_BYTES)
    yield node
    if node in cluster.list_all_nodes():
        cluster.remove_node(node, allow_graceful=False)


@pytest.fixture(scope="session")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the measurements of forty probes in two files, in row groups of 300."""
    folder = tmp_path_factory.mktemp("measured")
    for number in range(2):
        probes = range(20 * number, 20 * number + 25)
        tables = [as_table(make_pings(20 + 9 * probe, seed=probe), probe) for probe in probes]
        table = pa.concat_tables(tables).sort_by("event_time")
        pq.write_table(table, folder / f"{number}.parquet", row_group_size=300)
    return folder


@pytest.fixture(autouse=True)
def small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let slices be small, so that there are many."""
    monkeypatch.setattr(plan, "SLICE_ROWS", 500)


@pytest.fixture
def expected(measured: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The files that the local runner makes."""
    out = tmp_path_factory.mktemp("expected") / "out"
    prepare([measured], out, shards=3)
    return contents(out)


def contents(folder: Path) -> dict[str, bytes]:
    """The files of a folder."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}
