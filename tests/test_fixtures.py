"""The options of this repository's own fixtures."""

import re
from pathlib import Path

import pytest

from netpipe.data.preparation.synthetic import generate
from tests.root_process import run_module

ELEMENTS = "perf_tests/test_elements.py"


def test_data_that_is_not_prepared_is_refused(tmp_path: Path) -> None:
    """A folder without an index is a usage error of one line, and nothing is run."""
    result = run_module("pytest", ELEMENTS, "--netpipe-data", str(tmp_path))
    assert result.returncode == pytest.ExitCode.USAGE_ERROR
    assert f"ERROR: --netpipe-data: {tmp_path}/index.json: " in result.stderr


def test_a_wrong_configuration_is_refused(tmp_path: Path) -> None:
    """An unknown key is a usage error that names file and key."""
    path = tmp_path / "netpipe.toml"
    path.write_text("[pipeline]\nworker = 2\n")
    result = run_module("pytest", ELEMENTS, "--netpipe-config", str(path))
    assert result.returncode == pytest.ExitCode.USAGE_ERROR
    assert re.search(f"ERROR: --netpipe-config: {path}: pipeline key .*'worker'", result.stderr)


def test_the_options_choose_data_and_configuration(tmp_path: Path) -> None:
    """The elements come from the given folder, in the shape that the given file states."""
    generate(tmp_path / "data", probes=30)
    path = tmp_path / "netpipe.toml"
    path.write_text("[pipeline]\nsequence_length = 64\nbatch_size = 4\n")
    result = run_module(
        "pytest", f"{ELEMENTS}::test_workers_do_not_change_the_batches[1]",
        "--netpipe-data", str(tmp_path / "data"), "--netpipe-config", str(path),
    )  # fmt: skip
    assert result.returncode == pytest.ExitCode.OK, result.stdout
