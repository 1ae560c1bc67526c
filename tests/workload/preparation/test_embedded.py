"""The default data set in a cache: generated once, by one process, and always complete."""

import fcntl
import os
import pwd
from pathlib import Path

import pytest

from netpipe.errors import InputError
from netpipe.workload.formats.index import save_index
from netpipe.workload.preparation import synthetic
from tests.disk import use_temporary_folder
from tests.workload.formats.test_index import INDEX


@pytest.fixture
def generated(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The folders in which data was generated; they get an index only."""
    folders: list[Path] = []

    def note(out: Path) -> None:
        folders.append(out)
        out.mkdir(parents=True)
        save_index(INDEX, out)

    monkeypatch.setattr(synthetic, "generate", note)
    return folders


def test_data_is_generated_once(generated: list[Path], tmp_path: Path) -> None:
    """The second call finds the data of the first."""
    assert synthetic.embedded_data(tmp_path) == synthetic.embedded_data(tmp_path) == generated[0]
    assert len(generated) == 1


def test_data_is_generated_by_one_process(
    generated: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lock is held while data is generated."""
    kept: list[Path] = []

    def generate_alone(out: Path) -> None:
        with next(tmp_path.glob("*.lock")).open() as lock, pytest.raises(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        kept.append(out)

    monkeypatch.setattr(synthetic, "generate", generate_alone)
    assert [synthetic.embedded_data(tmp_path)] == kept
    assert generated == []


def test_data_that_another_process_made_is_used(
    generated: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that waited for the lock uses the data that the other process made."""

    def wait(*_: object) -> None:
        made = tmp_path / synthetic._EMBEDDED_NAME
        made.mkdir()
        save_index(INDEX, made)
        (made / "shard").touch()

    monkeypatch.setattr(fcntl, "flock", wait)
    assert (synthetic.embedded_data(tmp_path) / "shard").exists()
    assert generated == []


@pytest.mark.parametrize("content", [None, "{", '{"schema": "netpipe.index/1"}'])
def test_incomplete_data_is_generated_again(
    generated: list[Path], tmp_path: Path, content: str | None
) -> None:
    """A folder without an index, or with a damaged one, is generated again."""
    target = synthetic.embedded_data(tmp_path)
    (target / "index.json").unlink()
    if content:
        (target / "index.json").write_text(content)
    assert synthetic.embedded_data(tmp_path) == target
    assert len(generated) == 2


def test_the_cache_folder_of_the_user(
    generated: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NETPIPE_DATA takes precedence over XDG_CACHE_HOME, and that over ~/.cache."""
    monkeypatch.delenv("NETPIPE_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert synthetic.data_of_user().parent == tmp_path / "xdg" / "netpipe"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert synthetic.data_of_user().parent == tmp_path / "home" / ".cache" / "netpipe"
    monkeypatch.setenv("NETPIPE_DATA", "prepared")
    assert synthetic.data_of_user() == Path("prepared")
    assert len(generated) == 2


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder for temporary files, in a process without a home."""
    (tmp_path / "temporary").mkdir()
    use_temporary_folder(monkeypatch, tmp_path / "temporary")
    for name in ("NETPIPE_DATA", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "temporary" / f"netpipe-cache-{os.geteuid()}"


def test_a_user_without_a_home(
    generated: list[Path], temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a container with any user id, the data is in a temporary folder."""

    def refuse(_: int) -> None:
        raise KeyError("uid not found")

    monkeypatch.setattr(pwd, "getpwuid", refuse)
    assert synthetic.data_of_user() == synthetic.data_of_user() == generated[0]
    assert generated == [temporary / synthetic._EMBEDDED_NAME]
    assert temporary.stat().st_mode & 0o777 == 0o700


@pytest.mark.usefixtures("generated")
def test_a_home_that_takes_no_file(
    tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A home that is a file, or that cannot be written to, is skipped too."""
    (tmp_path / "file").touch()
    monkeypatch.setenv("HOME", str(tmp_path / "file"))
    assert synthetic.data_of_user().parent == temporary
    monkeypatch.setenv("HOME", str(tmp_path / "full"))
    cache = tmp_path / "full" / ".cache" / "netpipe"
    (cache / f"{synthetic._EMBEDDED_NAME}.lock").mkdir(parents=True)
    assert synthetic.data_of_user().parent == temporary
    # Existing data can be used all the same.
    (cache / synthetic._EMBEDDED_NAME).mkdir()
    save_index(INDEX, cache / synthetic._EMBEDDED_NAME)
    assert synthetic.data_of_user().parent == cache


@pytest.mark.parametrize("place", ["file", "link"])
def test_no_folder_for_the_data(
    generated: list[Path], temporary: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """If no folder is writable, or another user made our folder, the error says what to do."""
    if place == "file":
        temporary.touch()
    else:
        temporary.symlink_to("/")
        monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
        temporary.rename(temporary.with_name(f"netpipe-cache-{os.geteuid()}"))
    with pytest.raises(InputError, match=r"netpipe-cache-\d+: cache folder.*NETPIPE_DATA"):
        synthetic.embedded_data()
    assert generated == []
