"""Baseline files that are renamed, moved, linked, removed or unreadable. Nothing is guessed."""

import errno
import os
from pathlib import Path

import pytest

from netpipe.errors import InputError
from netpipe.gate import baseline
from netpipe.gate.history import read_entries
from tests.disk import fill, use_temporary_folder
from tests.measurements import make_measurement

SESSIONS = {"perf_tests/test_a.py::test_step": (make_measurement(),)}
DOCUMENT = {"datetime": "2025-11-21T14:00:00+00:00", "commit_info": {"id": None}, "benchmarks": []}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A device's folder with two baselines."""
    made = tmp_path / "h200-x1"
    for name in ("first", "second"):
        baseline.save(made, name, DOCUMENT, SESSIONS)
    return made


def refused(folder: Path, words: str) -> None:
    """Expect that the latest baseline of a folder is refused with a one-line message."""
    with pytest.raises(InputError, match=words) as caught:
        baseline.load_all(folder)
    assert "\n" not in str(caught.value)


def test_without_the_latest_the_one_before_counts(folder: Path) -> None:
    """If the latest baseline is removed, the one before it is used."""
    (folder / "0002_second.json").unlink()
    found = baseline.load_all(folder)[-1]
    assert found.path.name == "0001_first.json"


def test_the_order_is_that_of_the_numbers(folder: Path) -> None:
    """Numbers of five digits are above those of four, in the folder and in the list of all."""
    (folder / "0002_second.json").rename(folder / "9999_second.json")
    path = baseline.save(folder, "third", DOCUMENT, SESSIONS)
    assert path.name == "10000_third.json"
    assert [found.path.name for found in baseline.load_all(folder)] == [
        "0001_first.json", "9999_second.json", "10000_third.json",
    ]  # fmt: skip
    assert [entry.is_compared for entry in read_entries(folder)] == [False, False, True]
    (folder / "10000_third.json").rename(folder / "10000_renamed.json")
    (folder / "9999_second.json").rename(folder / "10000_second.json")
    refused(
        folder, "number must be used by one baseline; found 10000_renamed.json and 10000_second"
    )


def test_another_name_is_no_other_baseline(folder: Path) -> None:
    """The text after the number has no meaning for the order."""
    path = (folder / "0002_second.json").rename(folder / "0002_renamed.json")
    found = baseline.load_all(folder)[-1]
    assert (found.path, found.sessions) == (path, SESSIONS)


@pytest.mark.parametrize("name", ["second.json", "second_0002.json", "2_second.json", "0002.json"])
def test_a_baseline_without_its_number_is_refused(folder: Path, name: str) -> None:
    """A file without its number is refused, instead of using the one before it."""
    (folder / "0002_second.json").rename(folder / name)
    refused(folder, rf"{name}: name must be NNNN_<name>\.json; found {name}\. Give it its number")


def test_a_baseline_of_another_device_is_refused(folder: Path) -> None:
    """A file that was moved to another device's folder is recognised by its content."""
    other = folder.parent / "h100-pcie-x1"
    folder.rename(other)
    refused(other, r"0002_second\.json: device\.key must be h100-pcie-x1, .*; found h200-x1")


def test_links_lead_to_a_baseline(folder: Path) -> None:
    """A folder and the files in it may be links."""
    (folder.parent / "stored").mkdir()
    stored = (folder / "0002_second.json").rename(folder.parent / "stored" / "anything.json")
    (folder / "0002_second.json").symlink_to(stored)
    linked = folder.parent / "linked"
    linked.mkdir()
    (linked / "h200-x1").symlink_to(folder)
    found = baseline.load_all(linked / "h200-x1")[-1]
    assert found.sessions == SESSIONS


def test_a_link_that_leads_nowhere_is_refused(folder: Path) -> None:
    """A broken link is refused, and its number stays taken."""
    (folder / "0003_third.json").symlink_to(folder / "gone")
    refused(folder, r"0003_third\.json: file must be readable; found No such file")
    assert baseline.save(folder, "fourth", DOCUMENT, SESSIONS).name == "0004_fourth.json"


def test_one_that_is_gone_when_it_is_read_is_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file removed between listing and reading is an error, not a crash."""
    listed = baseline.baseline_paths(folder)
    monkeypatch.setattr(baseline, "baseline_paths", lambda _: listed)
    listed[-1].unlink()
    refused(folder, r"0002_second\.json: file must be readable; found No such file")


def test_a_folder_in_place_of_a_baseline_is_refused(folder: Path) -> None:
    """The error names a folder that has the place of a baseline."""
    (folder / "0003_third.json").mkdir()
    refused(folder, r"0003_third\.json: file must be readable; found Is a directory")


@pytest.mark.parametrize("key", ["h200-x1", "h200-x1/below"])
def test_a_file_in_place_of_the_folder_is_refused(tmp_path: Path, key: str) -> None:
    """A file in place of the folder is an error; only a missing folder means no baseline."""
    (tmp_path / "h200-x1").write_text("not a folder")
    refused(tmp_path / key, f"{key}: folder must be readable; found Not a directory")


def test_a_folder_that_must_not_be_read_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without permission, it is unknown whether a baseline exists, so this is an error."""

    def closed(_: Path) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "iterdir", closed)
    refused(folder, "h200-x1: folder must be readable; found Permission denied")


@pytest.mark.parametrize("version", ["2", "10", "37"])
def test_a_newer_version_asks_for_an_upgrade(folder: Path, version: str) -> None:
    """A baseline of a newer version asks for an upgrade, not for a new recording."""
    path = folder / "0002_second.json"
    path.write_text(path.read_text().replace("netpipe.baseline/1", f"netpipe.baseline/{version}"))
    refused(folder, rf"found 'netpipe\.baseline/{version}'\. A newer netpipe wrote it: upgrade")


@pytest.mark.parametrize("version", ["0", "01", "1.5", "two"])
def test_no_version_is_recorded_again(folder: Path, version: str) -> None:
    """If an upgrade would not help, the message does not ask for one."""
    path = folder / "0002_second.json"
    path.write_text(path.read_text().replace("netpipe.baseline/1", f"netpipe.baseline/{version}"))
    refused(folder, rf"found 'netpipe\.baseline/{version}'\. Restore it with git")


def test_a_full_disk_keeps_the_baseline_elsewhere(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The recording is kept whole where the message says, and works once copied back."""
    fill(monkeypatch, folder)
    use_temporary_folder(monkeypatch, tmp_path)
    with pytest.raises(InputError, match="No space left") as full:
        baseline.save(folder, "third", DOCUMENT, SESSIONS)
    assert sorted(path.name for path in folder.iterdir()) == ["0001_first.json", "0002_second.json"]
    (kept,) = tmp_path.glob("netpipe-*/0003_third.json")
    assert str(kept) in full.value.way_out
    kept.rename(folder / kept.name)
    found = baseline.load_all(folder)[-1]
    assert (found.path.name, found.sessions) == ("0003_third.json", SESSIONS)


def test_where_nothing_can_be_kept_the_message_has_both_reasons(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder's error comes first, then that of the temporary files."""
    fill(monkeypatch, folder)
    use_temporary_folder(monkeypatch, tmp_path / "absent")
    reasons = f"{os.strerror(errno.ENOSPC)}.* temporary .*{os.strerror(errno.ENOENT)}"
    with pytest.raises(InputError, match=reasons):
        baseline.save(folder, "third", DOCUMENT, SESSIONS)
