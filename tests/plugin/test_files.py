"""Baseline files that cannot be read or written."""

from collections.abc import Callable
from fnmatch import fnmatch
from pathlib import Path

import pytest

from tests.disk import fill, make_read_only, use_temporary_folder
from tests.plugin.project import Project, line_with
from tests.plugin.recorded import H200, recorded

RECORD = ("--netpipe-record=second", "--netpipe-sessions=1")
KEY = "cpu-testing-4"
FIRST, SECOND = f"{KEY}/0001_first.json", f"{KEY}/0002_second.json"


@pytest.fixture
def baselined(project: Project) -> Project:
    """A project with a baseline."""
    project.record()
    return project


@pytest.fixture
def folder(baselined: Project) -> Path:
    """Its folder of baselines."""
    return baselined.pytester.path / "baselines"


@pytest.fixture
def temporary(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The system's folder for temporary files."""
    made = tmp_path_factory.mktemp("temporary")
    use_temporary_folder(monkeypatch, made)
    return made


def _empty(path: Path) -> None:
    path.write_text("")


def _cut_off(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-700])


def _corrupt(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b"0.01", b"0.02", 1))


def _take_the_number(path: Path) -> None:
    path.rename(path.with_name("first.json"))


def _put_a_file_for_the_folder(path: Path) -> None:
    path.unlink()
    path.parent.rmdir()
    path.parent.write_text("not a folder")


def _link_nowhere(path: Path) -> None:
    path.unlink()
    path.symlink_to("gone")


@pytest.mark.parametrize(
    ("spoil", "values"),
    [
        (_empty, "0001_first.json: file *JSON*record again"),
        (_cut_off, "0001_first.json: file *JSON*record again"),
        (_corrupt, "0001_first.json: netpipe.digest *record again"),
        (_take_the_number, "first.json: name *NNNN_<name>.json*"),
        (_put_a_file_for_the_folder, f"{KEY}: folder *Not a directory"),
        (_link_nowhere, "0001_first.json: file *No such file*"),
    ],
)
def test_what_cannot_be_used_ends_the_run(
    baselined: Project, folder: Path, spoil: Callable[[Path], None], values: str
) -> None:
    """One sentence names the file before anything is measured."""
    spoil(folder / FIRST)
    result = baselined.compare()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    (line,) = [line for line in result.errlines if line]
    assert fnmatch(line, f"ERROR: *{values}*")
    assert not baselined.requests


@pytest.mark.parametrize("number", ["0001", "0002"])
def test_every_baseline_must_be_whole(baselined: Project, folder: Path, number: str) -> None:
    """Any baseline may be the oldest comparable one, or the only one with a benchmark."""
    baselined.record()
    baselined.record()
    damaged = FIRST.replace("0001", number)
    (folder / damaged).write_text("")
    result = baselined.compare()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    line_with(result, "ERROR", damaged, "JSON")
    assert not baselined.requests


@pytest.mark.parametrize("is_new", [True, False])
def test_a_recording_that_cannot_be_written_is_refused(
    baselined: Project, folder: Path, is_new: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run ends before anything is measured, whether or not the folder exists."""
    make_read_only(monkeypatch, folder.parent)
    result = baselined.run(*RECORD, f"--netpipe-accelerator={'emulated:5ms' if is_new else 'auto'}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    line_with(result, "ERROR: ", "/baselines", "--netpipe-record", "Read-only file system")
    assert not baselined.requests
    assert baselined.baselines == [FIRST]


def test_a_recording_that_fits_no_longer_is_kept(
    baselined: Project, folder: Path, temporary: Path
) -> None:
    """The run fails, keeps the earlier baseline, and names a complete file elsewhere."""
    before = (folder / FIRST).read_bytes()
    with pytest.MonkeyPatch.context() as monkeypatch:
        fill(monkeypatch, folder)
        result = baselined.run(*RECORD)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    (kept,) = temporary.glob("*/0002_second.json")
    found = "No space left on device"
    line_with(result, "no baseline", f"/baselines/{KEY}: folder", found, str(kept))
    assert baselined.baselines == [FIRST]
    assert (folder / FIRST).read_bytes() == before
    kept.rename(folder / SECOND)
    assert baselined.compare().ret == pytest.ExitCode.OK


def test_one_device_that_is_refused_is_no_others_loss(
    baselined: Project, folder: Path, temporary: Path
) -> None:
    """The other device's baseline is written, and the message names both."""
    (folder / "h200-x1").write_text("not a folder")
    baselined.sessions = [recorded(device=H200), recorded()]
    result = baselined.run(*RECORD, "--netpipe-accelerator=emulated:5ms,auto")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert SECOND in baselined.baselines
    (kept,) = temporary.glob("*/0001_second.json")
    line_with(result, "no baseline", "/h200-x1: ", str(kept))
    line_with(result, "recorded ", SECOND)


def test_two_baselines_of_one_number_are_a_usage_error(baselined: Project, folder: Path) -> None:
    """Both files are named, as two branches make them."""
    (folder / KEY / "0001_other.json").write_text((folder / FIRST).read_text())
    result = baselined.compare()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    line_with(result, "ERROR", "0001_first.json", "0001_other.json")


def test_a_damaged_baseline_of_another_device_is_not_read(baselined: Project, folder: Path) -> None:
    """Only the baselines of this device are read."""
    (folder / FIRST).write_text("")
    (folder / KEY).rename(folder / "h200-x1")
    assert baselined.compare().ret == pytest.ExitCode.OK
