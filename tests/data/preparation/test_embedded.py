"""The default data set in a cache: generated once, by one process, and always complete."""

import fcntl
from pathlib import Path

import pytest

from netpipe.data.preparation import synthetic


@pytest.fixture
def generated(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The folders in which data was generated; they get an index only."""
    folders: list[Path] = []

    def note(out: Path) -> None:
        folders.append(out)
        out.mkdir(parents=True)
        (out / "index.json").write_text('{"schema": "netpipe.index/1"}')

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
        (made / "index.json").write_text('{"schema": "netpipe.index/1"}')
        (made / "shard").touch()

    monkeypatch.setattr(fcntl, "flock", wait)
    assert (synthetic.embedded_data(tmp_path) / "shard").exists()
    assert generated == []


def test_incomplete_data_is_generated_again(generated: list[Path], tmp_path: Path) -> None:
    """A folder without an index is generated again."""
    target = synthetic.embedded_data(tmp_path)
    (target / "index.json").unlink()
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
