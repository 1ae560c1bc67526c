"""The options of this repository's own fixtures."""

import os
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fixtures.step import workload_of
from netpipe.workload.config import Config
from netpipe.workload.preparation import synthetic
from netpipe.workload.preparation.synthetic import generate
from tests.disk import use_temporary_folder
from tests.plugin.project import INI, leave_xdist, line_with
from tests.root_process import run_module

ORDER = "perf_tests/test_order.py"


def test_data_that_is_not_prepared_is_refused(tmp_path: Path) -> None:
    """A folder without an index is a usage error of one line, and no test runs."""
    result = run_module("pytest", ORDER, "--netpipe-data", str(tmp_path))
    assert result.returncode == pytest.ExitCode.USAGE_ERROR
    assert f"ERROR: --netpipe-data: {tmp_path}/index.json: " in result.stderr


def test_data_in_a_bucket_are_refused() -> None:
    """A URI is a usage error that says what to do."""
    result = run_module("pytest", ORDER, "--netpipe-data", "s3://bucket/rows")
    assert result.returncode == pytest.ExitCode.USAGE_ERROR
    assert "--netpipe-data: the path must be a local one: copy what a URI names" in result.stderr


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A project that prints where the data of this repository's fixtures are."""
    leave_xdist(monkeypatch)
    pytester.makeini(INI)
    pytester.makeconftest('pytest_plugins = ["fixtures.dataset"]')
    pytester.makepyfile("def test_data(data_directory): print(f'data: {data_directory}.')")
    return pytester


def test_without_a_cache_the_data_are_temporary(
    project: pytest.Pytester, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a writable cache, the data are in the temporary folder."""
    use_temporary_folder(monkeypatch, tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/no")
    monkeypatch.delenv("NETPIPE_DATA", raising=False)
    data = tmp_path / f"netpipe-cache-{os.geteuid()}" / synthetic._EMBEDDED_NAME
    synthetic.generate(data, probes=30)
    result = project.runpytest_inprocess("-s", "-o", "cache_dir=/proc/no")
    line_with(result, f"data: {data}.")


def test_without_pytests_cache_the_users_data_is_taken(
    project: pytest.Pytester, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """-p no:cacheprovider leaves NETPIPE_DATA, or the default data set of the user."""
    monkeypatch.setenv("NETPIPE_DATA", str(tmp_path / "mine"))
    result = project.runpytest_inprocess("-s", "-p", "no:cacheprovider")
    line_with(result, f"data: {tmp_path}/mine.")


def test_a_wrong_configuration_is_refused(tmp_path: Path) -> None:
    """An unknown key is a usage error that names file and key."""
    path = tmp_path / "netpipe.toml"
    path.write_text("[pipeline]\nworker = 2\n")
    result = run_module("pytest", ORDER, "--netpipe-config", str(path))
    assert result.returncode == pytest.ExitCode.USAGE_ERROR
    assert re.search(f"ERROR: --netpipe-config: {path}: pipeline key .*'worker'", result.stderr)


def test_the_options_choose_data_and_configuration(
    project: pytest.Pytester, tmp_path: Path
) -> None:
    """The batches come from the given folder, in the shape that the given file states."""
    generate(tmp_path / "data", probes=30)
    path = tmp_path / "netpipe.toml"
    path.write_text("[pipeline]\nsequence_length = 64\nbatch_size = 4\nworkers = 0\n")
    modules = [f"fixtures.{name}" for name in ("dataset", "pipeline", "step")]
    project.makeconftest(f"pytest_plugins = {modules}")
    project.makepyfile(
        """
        def test_batch(netpipe_loader, data_directory):
            print(f"{next(iter(netpipe_loader()))['inputs'].shape} from {data_directory}.")
        """
    )
    data = tmp_path / "data"
    options = [f"--netpipe-data={data}", f"--netpipe-config={path}"]
    result = project.runpytest_inprocess("-s", *options)
    line_with(result, f"(4, 64) from {data}.")


@pytest.mark.parametrize(("platform", "preset"), [("gpu", "latency-95m"), ("cpu", "tiny")])
def test_the_workload_suits_the_device(platform: str, preset: str) -> None:
    """A GPU trains the large model, a CPU the small one."""
    device: Any = SimpleNamespace(platform=platform)
    assert workload_of(device, Config()).step.preset == preset
