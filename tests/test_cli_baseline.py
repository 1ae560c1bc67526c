"""`netpipe baseline`: its tables, documents and exit codes."""

import json
from importlib import import_module
from pathlib import Path

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
    for number in range(4):
        sessions = tuple(make_measurement(load_s=0.010 + number * 0.001) for _ in range(2))
        baseline.save(folder / "h200-x1", f"n{number}", DOCUMENT, {"perf::load": sessions})
    return folder


def lines(result: Result) -> list[str]:
    """Return the lines of standard output, with single spaces."""
    return [" ".join(line.split()) for line in result.stdout.splitlines()]


def files(baselines: Path) -> list[str]:
    """Return the numbers of the files."""
    return sorted(path.name[:4] for path in (baselines / "h200-x1").iterdir())


def test_list_prints_all_baselines(netpipe: Netpipe, baselines: Path) -> None:
    """Each row has device, file, time, commit and sessions; the latest is marked."""
    result = netpipe("baseline", "list", "--baselines", baselines)
    assert result.exit_code == 0, result.output
    rows = [line for line in lines(result) if line.startswith("h200-x1")]
    assert rows[0] == "h200-x1 0001_n0.json 2026-11-21 14:00 0123456 2 1"
    assert [row.endswith("compared with") for row in rows] == [False, False, False, True]


def test_list_prints_a_document(netpipe: Netpipe, baselines: Path) -> None:
    """The document has the contents of the table."""
    result = netpipe("baseline", "list", "--baselines", baselines, "--json")
    found = json.loads(result.stdout)
    assert found["schema"] == "netpipe.baselines/1"
    numbers = [entry["file"][:4] for entry in found["baselines"]]
    assert numbers == ["0001", "0002", "0003", "0004"]
    assert found["baselines"][0]["benchmarks"] == ["perf::load"]


def test_a_damaged_baseline_fails_the_list(netpipe: Netpipe, baselines: Path) -> None:
    """The error names its file; the others are listed."""
    (baselines / "h200-x1" / "0003_n2.json").write_text("{")
    result = netpipe("baseline", "list", "--baselines", baselines)
    assert result.exit_code == 1
    assert "0004_n3.json" in result.stdout
    assert "0003_n2.json: " in result.stderr


def test_a_missing_folder_is_misuse(netpipe: Netpipe, tmp_path: Path) -> None:
    """The error names the option."""
    result = netpipe("baseline", "list", "--baselines", tmp_path / "absent")
    assert result.exit_code == 2
    assert "absent: --baselines" in result.stderr


def test_an_empty_list_says_how_to_begin(netpipe: Netpipe, tmp_path: Path) -> None:
    """The output names the command that records a baseline."""
    result = netpipe("baseline", "list", "--baselines", tmp_path)
    assert result.exit_code == 0
    assert "baseline record NAME" in " ".join(lines(result))


def test_show_prints_figures(netpipe: Netpipe, baselines: Path) -> None:
    """The figures cover all sessions, in their units."""
    path = baselines / "h200-x1" / "0002_n1.json"
    result = netpipe("baseline", "show", path)
    assert result.exit_code == 0, result.output
    assert "load_s_per_batch 11 ms 11 ms 11 ms" in lines(result)
    shown = json.loads(netpipe("baseline", "show", path, "--json").stdout)
    assert shown["figures"]["load_s_per_batch"] == {"low": 0.011, "median": 0.011, "high": 0.011}


def test_diff_compares_two_baselines(netpipe: Netpipe, baselines: Path) -> None:
    """Each figure has its old value, its new value and their ratio."""
    before, after = (baselines / "h200-x1" / name for name in ("0001_n0.json", "0003_n2.json"))
    result = netpipe("baseline", "diff", before, after)
    assert result.exit_code == 0, result.output
    assert "load_s_per_batch 10 ms 12 ms 1.20 x" in lines(result)
    found = json.loads(netpipe("baseline", "diff", before, after, "--json").stdout)
    assert found["figures"]["load_s_per_batch"]["ratio"] == pytest.approx(1.2)


def test_another_file_is_misuse(netpipe: Netpipe, tmp_path: Path) -> None:
    """The error names the file and the field."""
    (tmp_path / "x.json").write_text("{}")
    for words in (("show",), ("diff", tmp_path / "x.json")):
        result = netpipe("baseline", *words, tmp_path / "x.json")
        assert result.exit_code == 2
        assert "x.json: netpipe.schema" in result.stderr


def test_prune_removes_only_with_yes(netpipe: Netpipe, baselines: Path) -> None:
    """With --yes the first and the latest stay."""
    words = ("baseline", "prune", "--baselines", baselines, "--keep", 1)
    assert netpipe(*words).stdout.count("would remove") == 2
    assert files(baselines) == ["0001", "0002", "0003", "0004"]
    assert netpipe(*words, "--yes").exit_code == 0
    assert files(baselines) == ["0001", "0004"]


@pytest.mark.parametrize(
    ("words", "folder"),
    [
        ((), ["perf_tests"]),
        (("mine", "-x"), ["mine", "-x"]),
        (("-k", "load"), ["perf_tests", "-k", "load"]),
    ],
)
def test_recording_is_a_run_of_pytest(
    netpipe: Netpipe,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    words: tuple[str, ...],
    folder: list[str],
) -> None:
    """The exit code is that of pytest, which runs perf_tests unless another folder is given."""
    (tmp_path / "mine").mkdir()
    monkeypatch.chdir(tmp_path)
    commands: list[list[str]] = []

    def run(command: list[str], *_: object) -> int:
        commands.append(command)
        return 1

    monkeypatch.setattr(import_module("netpipe.cli.baseline"), "run_child", run)
    result = netpipe("baseline", "record", "--sessions", 3, "first", *words)
    assert result.exit_code == 1
    (command,) = commands
    assert command[1:3] == ["-m", "pytest"]
    assert command[3:] == [*folder, "--netpipe-record=first", "--netpipe-sessions=3"]
    netpipe("baseline", "record", "first", *words)  # the configuration has the number of sessions
    assert commands[1][3:] == [*folder, "--netpipe-record=first"]


def test_a_recording_needs_a_name(netpipe: Netpipe) -> None:
    """An unset variable in a script would otherwise record nothing."""
    result = netpipe("baseline", "record", "")
    assert result.exit_code == 2
    assert "NAME must name the baseline" in " ".join(result.stderr.split())
