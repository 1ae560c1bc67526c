"""The study of rows kept in memory."""

from pathlib import Path

from click.testing import CliRunner

from perf_tests.studies.row_cache import main
from tests.workload.conftest import many as many


def test_each_folder_has_a_row_with_and_without_a_budget(many: Path) -> None:
    """Every other round is reversed, and the table has the spread of both."""
    words = [str(many), "--rounds", "2", "--batches", "1", "--budget", "64"]
    printed = CliRunner().invoke(main, words, catch_exceptions=False).output.splitlines()
    assert [line.split(" |")[0] for line in printed[2:]] == ["| out, 0 MiB", "| out, 64 MiB"]
    assert all(" M (" in line for line in printed[2:])
