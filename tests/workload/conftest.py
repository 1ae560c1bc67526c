"""One small data set, prepared once, and the measurements it was made of."""

from pathlib import Path

import pytest

from netpipe.workload.preparation.prepare import prepare
from tests.workload.factories import make_pings, write_probes
from tests.workload.reference import Ping

PROBE_SIZES = (1, 3, 8, 29, 30, 31, 60, 61, 100, 150, 250, 300, 500, 800)


@pytest.fixture(scope="session")
def histories() -> dict[int, list[Ping]]:
    """Fourteen probes of 1 to 800 measurements, each small enough for one row."""
    return {100 + n: make_pings(size, seed=n) for n, size in enumerate(PROBE_SIZES)}


@pytest.fixture(scope="session")
def parquet(tmp_path_factory: pytest.TempPathFactory, histories: dict[int, list[Ping]]) -> Path:
    """A folder with their parquet file."""
    folder = tmp_path_factory.mktemp("parquet")
    write_probes(folder / "measured.parquet", histories)
    return folder


@pytest.fixture(scope="session")
def prepared(tmp_path_factory: pytest.TempPathFactory, parquet: Path) -> Path:
    """A folder of probe rows prepared from it, in three shards; do not write into it."""
    out = tmp_path_factory.mktemp("prepared") / "out"
    prepare([parquet], out, shards=3, eval_fraction=0.2)
    return out


@pytest.fixture(scope="session")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Prepared data of forty probes: a batch of eight hosts is less than an epoch."""
    folder = tmp_path_factory.mktemp("many")
    write_probes(folder / "many.parquet", {n: make_pings(150, seed=n) for n in range(40)})
    prepare([folder / "many.parquet"], folder / "out")
    return folder / "out"
