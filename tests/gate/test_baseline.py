"""Baseline files: complete, numbered uniquely, and refused by name if something is wrong."""

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest

from netpipe.errors import InputError
from netpipe.gate import baseline
from tests.disk import use_temporary_folder
from tests.measurements import make_measurement

SESSIONS = {"perf_tests/test_a.py::test_step": (make_measurement(), make_measurement(rounds=3))}
DOCUMENT = {
    "datetime": "2025-11-21T14:00:00+00:00",
    "commit_info": {"id": "0dd9428", "dirty": False},
    "benchmarks": [{"fullname": "test_step", "stats": {"data": [0.03, 0.03]}}],
}


def test_a_session_behind_two_benchmarks_is_written_once(tmp_path: Path) -> None:
    """Benchmarks with the same sessions share them in the file and after reading it back."""
    shared = {"a::load": SESSIONS["perf_tests/test_a.py::test_step"], **SESSIONS}
    path = baseline.save(tmp_path, "first", DOCUMENT, shared)
    assert len(json.loads(path.read_text())["netpipe"]["sessions"]) == 2
    assert baseline.load(path).sessions == shared


def save(folder: Path, name: str = "first") -> Path:
    """Write a baseline of two sessions."""
    return baseline.save(folder, name, DOCUMENT, SESSIONS)


def test_a_baseline_reads_back(tmp_path: Path) -> None:
    """The sessions that are read back equal the recorded ones."""
    path = save(tmp_path / "h200-x1")
    found = baseline.load(path)
    assert path == tmp_path / "h200-x1" / "0001_first.json"
    assert (found.path, found.recorded, found.commit) == (path, DOCUMENT["datetime"], "0dd9428")
    assert found.sessions == SESSIONS
    assert baseline.load_all(path.parent)[-1] == found


def test_pytest_benchmark_finds_its_own_document(tmp_path: Path) -> None:
    """pytest-benchmark's figures stay where its tools look for them."""
    written = json.loads(save(tmp_path).read_text())
    assert {name: written[name] for name in DOCUMENT} == DOCUMENT
    assert set(written) == {*DOCUMENT, "netpipe"}


def test_anybody_may_read_a_baseline(tmp_path: Path) -> None:
    """A baseline is readable by everyone, unlike a temporary file."""
    assert save(tmp_path).stat().st_mode & 0o777 == 0o644


def test_the_highest_number_is_the_latest(tmp_path: Path) -> None:
    """The number decides, not the name or the order of writing; other files are ignored."""
    folder = tmp_path / "h200-x1"
    for name in ("zebra", "middle", "aardvark"):
        last = save(folder, name)
    (folder / "9999.json").write_text("{}")
    (folder / "notes_9999.json").write_text("{}")
    found = baseline.load_all(folder)[-1]
    assert found.path == last == folder / "0003_aardvark.json"


def test_the_next_number_fills_no_gap(tmp_path: Path) -> None:
    """A number that was used and removed is not used again."""
    save(tmp_path).rename(tmp_path / "0041_old.json")
    assert save(tmp_path).name == "0042_first.json"


def test_there_may_be_none(tmp_path: Path) -> None:
    """A device without a folder, or with an empty one, has no baseline."""
    assert baseline.load_all(tmp_path / "absent") == ()
    assert baseline.load_all(tmp_path) == ()


def test_one_number_is_one_baseline(tmp_path: Path) -> None:
    """Two files with the latest number are an error; neither is chosen."""
    save(tmp_path, "mine").rename(tmp_path / "0007_mine.json")
    (tmp_path / "0007_theirs.json").write_text("{}")
    with pytest.raises(InputError, match=r"0007_mine.*0007_theirs"):
        baseline.load_all(tmp_path)


def test_an_older_double_number_is_no_trouble(tmp_path: Path) -> None:
    """Only the latest number must be unique."""
    folder = tmp_path / "h200-x1"
    for name in ("mine", "theirs"):
        save(folder, name).rename(folder / f"0001_{name}.json")
    save(folder).rename(folder / "0002_both.json")
    found = baseline.load_all(folder)[-1]
    assert found.path.name == "0002_both.json"


def _drop_schema(document: dict[str, Any]) -> None:
    del document["netpipe"]


def _next_schema(document: dict[str, Any]) -> None:
    document["netpipe"]["schema"] = "netpipe.baseline/2"


def _drop_datetime(document: dict[str, Any]) -> None:
    del document["datetime"]


def _drop_sessions(document: dict[str, Any]) -> None:
    del document["netpipe"]["sessions"]


def _forget_sessions(document: dict[str, Any]) -> None:
    document["netpipe"]["sessions"] = []


def _drop_step(document: dict[str, Any]) -> None:
    del document["netpipe"]["sessions"][0]["step_s"]


def _slow_text(document: dict[str, Any]) -> None:
    document["netpipe"]["sessions"][0]["step_s"]["median"] = "slow"


def _no_rounds(document: dict[str, Any]) -> None:
    document["netpipe"]["sessions"][1]["step_s"]["n"] = 0


def _edit_session(document: dict[str, Any]) -> None:
    document["netpipe"]["sessions"][0]["elapsed_s"] *= 2


def _edit_table(document: dict[str, Any]) -> None:
    document["benchmarks"][0]["stats"]["data"][0] *= 2


def _drop_digest(document: dict[str, Any]) -> None:
    del document["netpipe"]["digest"]


def _name_session(document: dict[str, Any], place: object) -> None:
    """Replace the sessions of the first benchmark, and update the digest."""
    next(iter(document["netpipe"]["benchmarks"].values()))[:] = [place]
    document["netpipe"]["digest"] = baseline.compute_digest(document)


@pytest.mark.parametrize("place", [0.0, 99, 10**18, True, -1], ids=str)
def test_a_session_that_is_not_there_is_refused(tmp_path: Path, place: object) -> None:
    """An index beyond the sessions, or one that is not an integer, gives a one-line error."""
    path = save(tmp_path)
    document = json.loads(path.read_text())
    _name_session(document, place)
    path.write_text(json.dumps(document))
    with pytest.raises(InputError, match=r"netpipe\.benchmarks.* must .*; found"):
        baseline.load(path)


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (_drop_schema, "netpipe.schema must be netpipe.baseline/1; found None"),
        (
            _next_schema,
            "netpipe.schema must be netpipe.baseline/1; found 'netpipe.baseline/2'. A newer",
        ),
        (_drop_datetime, "content must fit its schema ('datetime' is a required property)"),
        (_drop_sessions, "netpipe must fit its schema ('sessions' is a required property)"),
        (_forget_sessions, "netpipe.sessions must have at least 1 entries; found []"),
        (_drop_step, "netpipe.sessions[0] must fit its schema ('step_s' is a required property)"),
        (_slow_text, "netpipe.sessions[0].step_s.median must be of type number; found 'slow'"),
        (_no_rounds, "netpipe.sessions[1].step_s.n must be at least 1; found 0"),
        (_edit_session, "netpipe.digest must be *, that of the content; found *It was edited"),
        (_edit_table, "netpipe.digest must be *, that of the content; found *It was edited"),
        (_drop_digest, "netpipe must fit its schema ('digest' is a required property)"),
    ],
)
def test_a_wrong_baseline_is_refused(
    spoil: Callable[[dict[str, Any]], None], words: str, tmp_path: Path
) -> None:
    """The error is one line that names the file and the wrong or missing field."""
    path = save(tmp_path)
    document = json.loads(path.read_text())
    spoil(document)
    path.write_text(json.dumps(document))
    with pytest.raises(InputError) as caught:
        baseline.load(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert fnmatch(message, f"*{words.replace('[', '[[]')}*")
    assert "\n" not in message


@pytest.mark.parametrize("keep", [0, 1, -20])
def test_a_truncated_baseline_is_refused(keep: int, tmp_path: Path) -> None:
    """A truncated file is reported as invalid JSON, with a remedy."""
    path = save(tmp_path)
    path.write_text(path.read_text()[:keep])
    with pytest.raises(InputError, match=rf"{path}: .*JSON"):
        baseline.load(path)


@pytest.mark.parametrize("text", [b"\xff\xfe\x00", b"[]", b"3"])
def test_something_else_is_refused(text: bytes, tmp_path: Path) -> None:
    """A file that is not text, or JSON of another shape, is an error, not a crash."""
    path = tmp_path / "0001_other.json"
    path.write_bytes(text)
    with pytest.raises(InputError, match=str(path)):
        baseline.load(path)


def test_an_absent_baseline_is_refused(tmp_path: Path) -> None:
    """The error names a file that does not exist."""
    with pytest.raises(InputError, match=r"0001_gone\.json: .*No such"):
        baseline.load(tmp_path / "0001_gone.json")


def test_nothing_half_written_is_left(tmp_path: Path) -> None:
    """A save leaves only the baseline; a document that is not valid JSON leaves nothing."""
    save(tmp_path)
    with pytest.raises(ValueError, match="JSON"):
        baseline.save(tmp_path, "nan", {"value": float("nan")}, {})
    assert [path.name for path in tmp_path.iterdir()] == ["0001_first.json"]


def test_recorders_at_once_get_numbers_of_their_own(tmp_path: Path) -> None:
    """No recorder overwrites a file that another writes at the same moment."""
    with ThreadPoolExecutor(8) as threads:
        paths = list(threads.map(lambda _: save(tmp_path), range(24)))
    assert sorted(path.name[:4] for path in paths) == [f"{n:04}" for n in range(1, 25)]
    assert len(list(tmp_path.iterdir())) == 24


def test_a_folder_that_cannot_be_written_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error names the folder, and whatever has its place is left untouched."""
    use_temporary_folder(monkeypatch, tmp_path)
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(InputError, match=r"file/h200-x1: .*Not a dir"):
        save(tmp_path / "file" / "h200-x1")
    assert (tmp_path / "file").read_text() == "not a folder"


def test_a_name_is_no_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name with a slash in it writes nothing."""
    use_temporary_folder(monkeypatch, tmp_path)
    with pytest.raises(InputError, match="folder"):
        save(tmp_path, "a/b")
    assert list(tmp_path.iterdir()) == []
