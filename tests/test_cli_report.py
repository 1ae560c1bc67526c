"""`netpipe report`, and `--html` of the commands that measure and read."""

import json
from pathlib import Path

import pytest

from netpipe.jobs import parent
from netpipe.jobs.request import SessionRequest
from tests.command import Netpipe, document
from tests.measurements import make_measurement
from tests.reporting.examples import lint, measurement
from tests.reporting.parsed import Parsed, parsed
from tests.watching.windows import make_window, write_log


@pytest.fixture
def result(tmp_path: Path) -> Path:
    """A measurement in a file."""
    path = tmp_path / "measured.json"
    path.write_text(json.dumps(measurement()))
    return path


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The kinds of the started sessions, which replay recorded results."""
    kinds: list[str] = []

    def measured(_: object, request: SessionRequest, **__: object) -> object:
        kinds.append(request.kind)
        return make_measurement() if request.kind == "measure" else lint()

    monkeypatch.setattr(parent, "run_measurement", measured)
    monkeypatch.setattr(parent, "run_session", measured)
    return kinds


def page(path: Path) -> Parsed:
    """Return a written page."""
    return parsed(path.read_text(encoding="utf-8"))


def test_a_result_becomes_a_page(netpipe: Netpipe, result: Path, tmp_path: Path) -> None:
    """Standard output is empty, and the page has the result."""
    ended = netpipe("report", result, "--html", tmp_path / "page.html")
    assert (ended.exit_code, ended.stdout) == (0, "")
    assert "Loader-bound" in page(tmp_path / "page.html").texts


def test_several_results_become_one_page(netpipe: Netpipe, result: Path, tmp_path: Path) -> None:
    """Each result has the name of its file."""
    ended = netpipe("report", result, result, "--html", tmp_path / "page.html")
    assert ended.exit_code == 0
    assert page(tmp_path / "page.html").texts.count("measured.json: h200-x1") == 4


def test_results_of_the_same_name_have_their_folders(
    netpipe: Netpipe, result: Path, tmp_path: Path
) -> None:
    """Otherwise two runs could not be told apart."""
    other = tmp_path / "after" / result.name
    other.parent.mkdir()
    other.write_text(result.read_text())
    ended = netpipe("report", result, other, "--html", tmp_path / "page.html")
    assert ended.exit_code == 0
    assert f"{other}: h200-x1" in page(tmp_path / "page.html").texts


def test_logs_of_a_watched_training_become_one_page(netpipe: Netpipe, tmp_path: Path) -> None:
    """Each process is a part."""
    paths = [
        write_log(tmp_path / f"{name}.jsonl", *(make_window(number, idle) for number in range(9)))
        for name, idle in (("a", 0.0), ("b", 0.4))
    ]
    ended = netpipe("report", *paths, "--html", tmp_path / "page.html")
    assert ended.exit_code == 0, ended.output
    texts = page(tmp_path / "page.html").texts
    assert {"a.jsonl: Training on node-1", "b.jsonl: Training on node-1"} <= set(texts)
    assert {"Healthy", "Loader-bound"} <= set(texts)
    paths[0].write_text("")
    assert netpipe("report", paths[0], "--html", tmp_path / "page.html").exit_code == 2


def test_a_wrong_result_leaves_no_page(netpipe: Netpipe, result: Path, tmp_path: Path) -> None:
    """A foreign file after a valid one is misuse."""
    other = tmp_path / "other.json"
    other.write_text("{}")
    ended = netpipe("report", result, other, "--html", tmp_path / "page.html")
    assert ended.exit_code == 2
    assert "other.json: schema" in ended.stderr
    assert not (tmp_path / "page.html").exists()


def test_measuring_writes_a_page_beside_its_output(
    netpipe: Netpipe, asked: list[str], tmp_path: Path
) -> None:
    """The document on standard output stays alone."""
    target = ("--loader", "a:b", "--step", "a:c")
    ended = netpipe("measure", *target, "--html", tmp_path / "page.html", "--json")
    assert document(ended, "measurement.1.json")
    assert asked == ["measure"]
    assert "Healthy" in page(tmp_path / "page.html").texts


def test_lint_writes_a_page(netpipe: Netpipe, asked: list[str], tmp_path: Path) -> None:
    """The exit code is the same as without it."""
    ended = netpipe("lint", "a:b", "--html", tmp_path / "page.html")
    assert ended.exit_code == 1
    assert asked == ["lint"]
    assert page(tmp_path / "page.html").named("article")


@pytest.mark.parametrize(
    "command", [("measure", "--loader", "a:b"), ("lint", "a:b"), ("report", __file__)]
)
def test_an_unwritable_page_is_refused_first(
    netpipe: Netpipe, asked: list[str], command: tuple[str, ...], tmp_path: Path
) -> None:
    """An unwritable page is refused before anything is measured."""
    ended = netpipe(*command, "--html", tmp_path / "absent" / "page.html")
    assert ended.exit_code == 2
    assert "page.html: --html" in ended.stderr
    assert asked == []
