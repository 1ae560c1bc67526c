"""Real measurements, from parquet to a verdict."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.root_process import ROOT, run_module

SEATTLE = ROOT.parent / "shared" / "data" / "seattle"
MEASUREMENTS = 200_000


@pytest.fixture
def parquet_slice(tmp_path: Path) -> Path:
    """Return a file with the first measurements of the real data."""
    files = sorted(SEATTLE.glob("*.parquet"))
    if not files:
        pytest.skip("the real measurements are not beside the project")
    path = tmp_path / "slice.parquet"
    pq.write_table(pq.read_table(files[0]).slice(0, MEASUREMENTS), path)
    return path


def test_a_slice_of_the_real_data_ends_with_a_verdict(parquet_slice: Path, tmp_path: Path) -> None:
    """Prepared real measurements give the perf suite a verdict on both accelerators."""
    data, results = tmp_path / "prepared", tmp_path / "results.json"
    prepared = run_module("netpipe", "prepare", str(parquet_slice), "--out", str(data))
    assert prepared.returncode == 0, prepared.stderr
    suite = run_module(
        "pytest", "perf_tests/test_loading.py", "perf_tests/test_emulated.py",
        "--benchmark-compare", "--netpipe-data", str(data),
        "--netpipe-json", str(results), "--netpipe-budget", "2", "-p", "no:cacheprovider",
    )  # fmt: skip
    # The verdict itself depends on how busy the machine is.
    assert suite.returncode in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED), suite.stdout
    measured = json.loads(results.read_text())["measurements"]
    assert {one["device"]["platform"] for one in measured} == {"cpu", "emulated"}
    assert all(one["verdict"]["kind"] in suite.stdout for one in measured)
