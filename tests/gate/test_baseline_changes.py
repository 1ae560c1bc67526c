"""Two folders of baselines: which files changed, with old and new side by side."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from netpipe.errors import InputError
from netpipe.gate import baseline
from netpipe.gate.baseline_changes import FileChange, file_changes
from tests.measurements import GPU, make_measurement

DOCUMENT = {"datetime": "2026-11-21T14:00:00+00:00", "commit_info": {}, "benchmarks": []}


def put(folder: Path, name: str, load_s: float = 0.01, device: str = "h200-x1") -> Path:
    """Record a baseline."""
    sessions = {"a::b": (make_measurement(load_s=load_s, device=replace(GPU, key=device)),)}
    return baseline.save(folder / device, name, DOCUMENT, sessions)


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    """BaselineSessions and proposed baselines, the same one of each of two devices."""
    before, after = tmp_path / "before", tmp_path / "after"
    put(before, "a")
    put(before, "a", device="t4-x1")
    (before / "README.md").write_text("who may write here")
    shutil.copytree(before, after)
    return before, after


def only(folders: tuple[Path, Path]) -> FileChange:
    """Return the only change."""
    (found,) = file_changes(*folders)
    return found


def ratio(change: FileChange) -> float | None:
    """Return the ratio of the load times."""
    assert change.difference is not None
    return change.difference.figures["load_s_per_batch"].ratio


def test_the_same_is_no_change(folders: tuple[Path, Path]) -> None:
    """Files that are not baselines do not count as changes."""
    (folders[1] / "README.md").write_text("you")
    (folders[1] / "waivers.toml").write_text("")
    assert list(file_changes(*folders)) == []


def test_an_added_one_stands_beside_what_was_compared_with(folders: tuple[Path, Path]) -> None:
    """An added file is compared with the latest of its device."""
    put(folders[1], "slow", load_s=0.02)
    change = only(folders)
    assert (change.kind, change.file) == ("added", "h200-x1/0002_slow.json")
    assert ratio(change) == pytest.approx(2.0)


def test_a_removed_one_stands_beside_what_would_be_compared_with(tmp_path: Path) -> None:
    """A removed file is compared with the latest remaining one."""
    before, after = tmp_path / "before", tmp_path / "after"
    put(before, "slow", load_s=0.02)
    shutil.copytree(before, after)
    put(before, "fast", load_s=0.01)
    change = only((before, after))
    assert (change.kind, change.file) == ("removed", "h200-x1/0002_fast.json")
    assert ratio(change) == pytest.approx(2.0)


def test_a_replaced_one_stands_beside_itself(folders: tuple[Path, Path]) -> None:
    """A file that keeps its name is compared with its old content."""
    (folders[1] / "h200-x1" / "0001_a.json").unlink()
    put(folders[1], "a", load_s=0.03)
    change = only(folders)
    assert (change.kind, change.file) == ("replaced", "h200-x1/0001_a.json")
    assert ratio(change) == pytest.approx(3.0)


def test_the_first_of_a_device_has_nothing_beside_it(folders: tuple[Path, Path]) -> None:
    """The first file of a device has no old side, the last removed one no new side."""
    put(folders[1], "a", device="l4-x1")
    shutil.rmtree(folders[1] / "t4-x1")
    first, last = file_changes(*folders)
    assert (first.kind, first.file) == ("added", "l4-x1/0001_a.json")
    assert (first.before, first.difference) == (None, None)
    assert (last.kind, last.file) == ("removed", "t4-x1/0001_a.json")
    assert (last.after, last.difference) == (None, None)


def test_a_damaged_one_may_be_mended(folders: tuple[Path, Path]) -> None:
    """An unreadable accepted file has no figures, and may be replaced."""
    (folders[0] / "h200-x1" / "0001_a.json").write_text("{")
    change = only(folders)
    assert (change.kind, change.before) == ("replaced", None)


@pytest.mark.parametrize(("name", "said"), [("0002_b.json", "JSON"), ("0001_b.json", "one base")])
def test_a_damaged_one_is_not_proposed(folders: tuple[Path, Path], name: str, said: str) -> None:
    """A damaged file, or a second one with the same number, is refused."""
    (folders[1] / "h200-x1" / name).write_text("{")
    with pytest.raises(InputError, match=said):
        list(file_changes(*folders))


def test_a_folder_need_not_be_there(folders: tuple[Path, Path], tmp_path: Path) -> None:
    """If nothing was accepted yet, every file counts as added."""
    found = file_changes(tmp_path / "absent", folders[1])
    assert [(change.kind, change.file) for change in found] == [
        ("added", "h200-x1/0001_a.json"),
        ("added", "t4-x1/0001_a.json"),
    ]
