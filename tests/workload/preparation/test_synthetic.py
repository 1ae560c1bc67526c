"""The embedded default data set."""

import errno
import math
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from netpipe.errors import InputError
from netpipe.workload.formats.index import Index, load_index
from netpipe.workload.preparation import phases
from netpipe.workload.preparation.profiles import PROFILES
from netpipe.workload.preparation.synthetic import generate


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Index]:
    """Three hundred probes."""
    out = tmp_path_factory.mktemp("synthetic") / "out"
    return out, generate(out, probes=300)


def _table(folder: Path) -> pa.Table:
    return pa.concat_tables(pq.read_table(path) for path in sorted(folder.glob("parquet/*")))


def test_both_forms_are_there(made: tuple[Path, Index]) -> None:
    """The parquet measurements and the shards made of them lie in one folder."""
    out, index = made
    assert load_index(out) == index
    assert index.train.probes + index.eval.probes == 300
    table = _table(out)
    assert index.train.measurements + index.eval.measurements == table.num_rows
    assert table.schema.field("src_addr").type == pa.string()


def test_the_seed_decides(tmp_path: Path) -> None:
    """The same seed gives the same data, another seed gives others."""
    prints = [
        generate(tmp_path / str(n), probes=20, seed=seed).fingerprint
        for n, seed in enumerate((3, 3, 4))
    ]
    assert prints[0] == prints[1] != prints[2]


def test_other_data_replace_it(tmp_path: Path) -> None:
    """The old data are removed, but a user's file keeps all of them."""
    out = tmp_path / "out"
    generate(out, probes=20)
    index = generate(out, probes=30, seed=1)
    found = sorted(str(path.relative_to(out)) for path in out.rglob("*") if path.is_file())
    assert found == sorted(["index.json", *map(str, index.files)])
    assert _table(out).num_rows == index.train.measurements + index.eval.measurements
    (out / "parquet" / "mine.parquet").touch()
    with pytest.raises(InputError, match=r"parquet/mine\.parquet"):
        generate(out, probes=20)
    assert load_index(out) == index


@pytest.mark.parametrize("place", [(pq, "write_table"), (phases, "write_run")])
def test_a_full_disk_names_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: tuple[object, str]
) -> None:
    """The error names the user's folder, whichever file could not be written."""

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(*place, refuse)
    with pytest.raises(InputError, match=f"^{tmp_path}/out: .*found {os.strerror(errno.ENOSPC)}$"):
        generate(tmp_path / "out", probes=20)
    assert list(tmp_path.iterdir()) == []


def test_it_looks_like_the_internet(made: tuple[Path, Index]) -> None:
    """Families, failures, round-trip times and history lengths are those of real probes."""
    table = _table(made[0])
    rtt_ms = table["rtt"].to_numpy()
    answered_ms = rtt_ms[rtt_ms >= 0]
    assert np.mean(table["ip_version"].to_numpy() == 4) == pytest.approx(0.58, abs=0.05)
    assert 0.03 < np.mean(rtt_ms < 0) < 0.08
    p50, p90, p99 = np.percentile(answered_ms, [50, 90, 99])
    assert 30 < p50 < 80
    assert 150 < p90 < 300
    assert 250 < p99 < 450
    counts = pc.value_counts(table["prb_id"].combine_chunks()).field("counts").to_numpy()
    assert np.median(counts) < 200
    assert counts.max() > 3000


def test_profiles_have_the_rows_they_are_named_for() -> None:
    """Probes have 170,000 measurements each, and 25 on average."""
    big, small = PROFILES["big-rows"], PROFILES["small-rows"]
    assert (big.probes, big.median_measurements, big.log_sigma) == (24, 170_000, 0)
    mean = small.median_measurements * math.exp(small.log_sigma**2 / 2)  # of a log-normal
    assert mean == pytest.approx(25, rel=0.02)
