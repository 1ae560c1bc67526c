"""`python -m perf_tests.studies.faults`: its flags, its outputs, its exit codes."""

import json
import os
import re
from pathlib import Path

import psutil
import pytest
from click.testing import CliRunner, Result

from netpipe.results.measurement import Measurement, parse_measurement
from perf_tests.studies.faults import __main__ as cli
from perf_tests.studies.faults.busy import busy_core
from perf_tests.studies.faults.cases import Case
from perf_tests.studies.faults.trials import Trial
from tests.measurements import make_measurement
from tests.studies.faults.trials_made import control, fault


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The name for each case; other cases get their first expected name."""
    names: dict[str, str] = {}

    def run(case: Case, seed: int, budget_s: float) -> tuple[Trial, Measurement]:
        right = case.kinds[0] if case.kinds else "healthy"
        trial = (control if case.is_control else fault)(
            names.get(case.name, right),
            case=case.name,
            expected=case.expected,
            kinds=case.kinds,
            finding=case.finding,
            names=case.names,
            findings={case.finding: f"in {case.names}"} if case.finding else {},
            seed=seed,
            values=case.draw(seed),
        )
        return trial, make_measurement(elapsed_s=budget_s)

    monkeypatch.setattr(cli, "run", run)
    return names


def invoke(*arguments: str) -> Result:
    """Run the command."""
    return CliRunner().invoke(cli.main, arguments)


@pytest.mark.usefixtures("called")
def test_all_right_is_zero() -> None:
    """A run in which every case is named correctly exits with 0."""
    result = invoke("--seed", "1")
    assert result.exit_code == 0, result.output
    assert "controls blamed: 0 of" in result.output
    assert "seed 1," in result.output


def test_a_blamed_control_is_one(called: dict[str, str]) -> None:
    """A control that is blamed fails the run and is shown with its message."""
    called["fine-thread"] = "jitter"
    result = invoke("--seed", "1", "--only", "fine-*")
    assert result.exit_code == 1
    assert re.search("healthy; .* jitter: because", result.output)


@pytest.mark.usefixtures("called")
def test_every_value_is_printed_and_written(tmp_path: Path) -> None:
    """The seed and the values drawn are on the terminal and in the file."""
    file = tmp_path / "run.json"
    result = invoke("--seed", "5", "--only", "slow-source", "--json", str(file))
    written = json.loads(file.read_text())
    assert written["schema"] == "netpipe.faults/1"
    (trial,) = written["trials"]
    assert trial["seed"] == 5
    assert trial["result"] == "right"
    for name, value in trial["values"].items():
        assert f"{name}={value:g}" in result.output
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.usefixtures("called")
def test_measurements_are_recorded(tmp_path: Path) -> None:
    """Each measurement is a file that can be read as one."""
    invoke("--seed", "1", "--only", "slow-so*", "--budget", "3", "--record", str(tmp_path / "new"))
    file = tmp_path / "new" / "slow-source.json"
    assert parse_measurement(json.loads(file.read_text()), file).elapsed_s == 3


def test_runs_are_merged(called: dict[str, str], tmp_path: Path) -> None:
    """Files of earlier runs are counted together, without a new run."""
    files = [str(tmp_path / name) for name in ("one.json", "two.json")]
    invoke("--seed", "1", "--only", "slow-source", "--json", files[0])
    called["slow-source"] = "healthy"
    invoke("--seed", "2", "--only", "slow-source", "--json", files[1])
    result = invoke("--merge", files[0], "--merge", files[1])
    assert result.exit_code == 1
    assert result.output.splitlines()[:3] == [
        "| expected | loader-bound | healthy |",
        "| --- | --: | --: |",
        "| loader-bound | 1 | 1 |",
    ]


@pytest.mark.usefixtures("called")
def test_a_trial_is_merged_once(tmp_path: Path) -> None:
    """The same run twice, or one without trials, is refused."""
    file = tmp_path / "one.json"
    invoke("--seed", "1", "--only", "slow-source", "--json", str(file))
    result = invoke("--merge", str(file), "--merge", str(file))
    assert result.exit_code == 2
    assert "slow-source of" in result.output
    document = json.loads(file.read_text())
    file.write_text(json.dumps({**document, "trials": []}))
    assert "found none" in invoke("--merge", str(file)).output


def test_a_file_that_is_no_run_is_refused(tmp_path: Path) -> None:
    """A JSON document of another kind is not counted."""
    file = tmp_path / "other.json"
    file.write_text('{"schema": "netpipe.run/1"}')
    result = invoke("--merge", str(file))
    assert result.exit_code == 2
    assert "netpipe.faults/1" in result.output


def test_a_busy_core_is_given_back() -> None:
    """The process that keeps a core busy ends with the run, however that ends."""
    pids: list[int] = []

    def interrupted() -> None:
        with busy_core() as pid:
            assert psutil.Process(pid).ppid() == os.getpid()
            pids.append(pid)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert not psutil.pid_exists(pids[0])
