"""`netpipe baseline`: what it prints where, and how it ends."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from netpipe.gate import baseline
from tests.command import Netpipe
from tests.measurements import make_measurement

DOCUMENT = {
    "datetime": "2026-11-21T14:00:00+00:00",
    "commit_info": {"id": "0123456789"},
    "benchmarks": [],
}


@pytest.fixture
def baselines(tmp_path: Path) -> Path:
    """A folder with four baselines of one device, each a millisecond slower than the last."""
    folder = tmp_path / "baselines"
    for place in range(4):
        sessions = tuple(make_measurement(load_s=0.010 + place * 0.001) for _ in range(2))
        baseline.save(folder / "h200-x1", f"n{place}", DOCUMENT, {"perf::load": sessions})
    return folder


def lines(result: Result) -> list[str]:
    """What is on standard output, with single spaces."""
    return [" ".join(line.split()) for line in result.stdout.splitlines()]


def files(baselines: Path) -> list[str]:
    """The numbers that are there."""
    return sorted(path.name[:4] for path in (baselines / "h200-x1").iterdir())


def test_all_are_listed(netpipe: Netpipe, baselines: Path) -> None:
    """With device, file, time, commit and sessions; the latest is marked."""
    result = netpipe("baseline", "list", "--baselines", baselines)
    assert result.exit_code == 0, result.output
    rows = [one for one in lines(result) if one.startswith("h200-x1")]
    assert rows[0] == "h200-x1 0001_n0.json 2026-11-21 14:00 0123456 2 1"
    assert [one.endswith("compared with") for one in rows] == [False, False, False, True]


def test_the_list_is_json_too(netpipe: Netpipe, baselines: Path) -> None:
    """One document, with what the table says."""
    result = netpipe("baseline", "list", "--baselines", baselines, "--json")
    found = json.loads(result.stdout)
    assert found["schema"] == "netpipe.baselines/1"
    assert [one["file"][:4] for one in found["baselines"]] == ["0001", "0002", "0003", "0004"]
    assert found["baselines"][0]["benchmarks"] == ["perf::load"]


def test_a_damaged_one_fails_the_list(netpipe: Netpipe, baselines: Path) -> None:
    """It is named with what is wrong, beside the others."""
    (baselines / "h200-x1" / "0003_n2.json").write_text("{")
    result = netpipe("baseline", "list", "--baselines", baselines)
    assert result.exit_code == 1
    assert "0004_n3.json" in result.stdout
    assert "0003_n2.json: file must be JSON" in result.stderr


def test_no_folder_is_misuse(netpipe: Netpipe, tmp_path: Path) -> None:
    """The option is named."""
    result = netpipe("baseline", "list", "--baselines", tmp_path / "absent")
    assert result.exit_code == 2
    assert "absent: --baselines must be a folder" in result.stderr


def test_an_empty_folder_says_how_to_begin(netpipe: Netpipe, tmp_path: Path) -> None:
    """Nothing is there yet."""
    result = netpipe("baseline", "list", "--baselines", tmp_path)
    assert result.exit_code == 0
    assert "netpipe baseline record NAME" in " ".join(lines(result))


def test_one_is_shown(netpipe: Netpipe, baselines: Path) -> None:
    """Its figures over sessions, in their units."""
    path = baselines / "h200-x1" / "0002_n1.json"
    result = netpipe("baseline", "show", path)
    assert result.exit_code == 0, result.output
    assert "load_s_per_batch 11 ms 11 ms 11 ms" in lines(result)
    shown = json.loads(netpipe("baseline", "show", path, "--json").stdout)
    assert shown["figures"]["load_s_per_batch"] == {"low": 0.011, "median": 0.011, "high": 0.011}


def test_two_are_put_side_by_side(netpipe: Netpipe, baselines: Path) -> None:
    """Old and new with their ratio."""
    before, after = (baselines / "h200-x1" / name for name in ("0001_n0.json", "0003_n2.json"))
    result = netpipe("baseline", "diff", before, after)
    assert result.exit_code == 0, result.output
    assert "load_s_per_batch 10 ms 12 ms 1.20 x" in lines(result)
    found = json.loads(netpipe("baseline", "diff", before, after, "--json").stdout)
    assert found["figures"]["load_s_per_batch"]["ratio"] == pytest.approx(1.2)


def test_what_is_no_baseline_is_misuse(netpipe: Netpipe, tmp_path: Path) -> None:
    """File and field are named."""
    (tmp_path / "x.json").write_text("{}")
    for words in (("show",), ("diff", tmp_path / "x.json")):
        result = netpipe("baseline", *words, tmp_path / "x.json")
        assert result.exit_code == 2
        assert "x.json: netpipe.schema must be netpipe.baseline/1" in result.stderr


def test_pruning_names_before_it_removes(netpipe: Netpipe, baselines: Path) -> None:
    """Without --yes nothing is gone; with it the first and the latest stay."""
    words = ("baseline", "prune", "--baselines", baselines, "--keep", 1)
    assert netpipe(*words).stdout.count("would remove") == 2
    assert files(baselines) == ["0001", "0002", "0003", "0004"]
    assert netpipe(*words, "--yes").exit_code == 0
    assert files(baselines) == ["0001", "0004"]


@pytest.mark.parametrize(
    ("words", "folder"),
    [((), ["perf_tests"]), (("mine", "-x"), ["mine", "-x"]), (("-x",), ["perf_tests", "-x"])],
)
def test_recording_is_a_run_of_pytest(
    netpipe: Netpipe, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], folder: list[str]
) -> None:
    """In a process of its own, whose exit code it has."""
    commands: list[list[str]] = []

    def run(command: list[str], **_: Any) -> "subprocess.CompletedProcess[str]":
        commands.append(command)
        return subprocess.CompletedProcess(command, 1)

    monkeypatch.setattr(subprocess, "run", run)
    result = netpipe("baseline", "record", "--sessions", 3, "first", *words)
    assert result.exit_code == 1
    (command,) = commands
    assert command[1:3] == ["-m", "pytest"]
    assert command[3:] == [*folder, "--netpipe-record=first", "--netpipe-sessions=3"]
