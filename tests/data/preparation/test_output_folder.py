"""Output folders that appear complete or not at all."""

import os
import shutil
from pathlib import Path

import pytest

from netpipe.data.formats.index import INDEX_NAME
from netpipe.data.preparation.output_folder import whole_folder
from netpipe.errors import InputError

OURS = '{"schema": "netpipe.index/1"}'


def _fail(folder: Path, error: Exception) -> None:
    (folder / "half").touch()
    raise error


def test_a_new_folder_appears_at_the_end(tmp_path: Path) -> None:
    """Parents are made, and the folder does not exist before the block ends."""
    out = tmp_path / "deep" / "out"
    with whole_folder(out) as folder:
        (folder / "data").write_text("new")
        assert not out.exists()
    assert (out / "data").read_text() == "new"
    assert list(out.parent.iterdir()) == [out]


def test_an_empty_folder_is_taken(tmp_path: Path) -> None:
    """An empty folder becomes the output."""
    with whole_folder(tmp_path / "out") as folder:
        (tmp_path / "out").mkdir()
        (folder / "data").touch()
    assert (tmp_path / "out/data").exists()


def test_ours_is_replaced_only_when_whole(tmp_path: Path) -> None:
    """A prepared folder survives a failure, and a success replaces it as a whole."""
    out = tmp_path / "out"
    out.mkdir()
    (out / INDEX_NAME).write_text(OURS)
    (out / "old").touch()
    with pytest.raises(KeyError), whole_folder(out) as folder:
        _fail(folder, KeyError())
    assert sorted(path.name for path in out.iterdir()) == [INDEX_NAME, "old"]
    with whole_folder(out) as folder:
        (folder / "new").touch()
    assert [path.name for path in out.iterdir()] == ["new"]
    assert list(tmp_path.iterdir()) == [out]


@pytest.mark.parametrize("content", ["", "{", '{"schema": "other/1"}'])
def test_other_files_are_not_touched(tmp_path: Path, content: str) -> None:
    """A folder with somebody else's files is refused."""
    (tmp_path / INDEX_NAME).write_text(content)
    with pytest.raises(InputError, match=r"other files.*Choose"):
        whole_folder(tmp_path).__enter__()
    assert (tmp_path / INDEX_NAME).read_text() == content


def test_what_is_read_is_not_replaced(tmp_path: Path) -> None:
    """Sources inside the output folder are refused, since replacing it would remove them."""
    with pytest.raises(InputError, match=r"not hold.*0\.parquet"):
        whole_folder(tmp_path, [tmp_path / "parquet" / "0.parquet"]).__enter__()


def test_a_file_in_the_way(tmp_path: Path) -> None:
    """A file with the name of the folder or of its parent is an input error."""
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="found a file"):
        whole_folder(tmp_path / "file").__enter__()
    with pytest.raises(InputError, match=f"{tmp_path}/file/out: .*writable"):
        whole_folder(tmp_path / "file" / "out").__enter__()


def test_a_failed_write_is_an_input_error(tmp_path: Path) -> None:
    """An operating system error inside the block names the output folder."""
    match = f"{tmp_path}/out: .*writable.*disk full"
    with pytest.raises(InputError, match=match), whole_folder(tmp_path / "out") as folder:
        _fail(folder, OSError("disk full"))
    assert not list(tmp_path.iterdir())


@pytest.fixture
def ours(tmp_path: Path) -> Path:
    """A prepared folder."""
    out = tmp_path / "out"
    out.mkdir()
    (out / INDEX_NAME).write_text(OURS)
    return out


@pytest.mark.parametrize("failing", [1, 2])
@pytest.mark.parametrize("error", [OSError("no"), KeyboardInterrupt()])
def test_a_failed_move_loses_nothing(
    ours: Path, monkeypatch: pytest.MonkeyPatch, failing: int, error: BaseException
) -> None:
    """Whichever move fails, the old folder is where it was, and nothing is beside it."""
    moves: list[Path] = []
    replace = Path.replace

    def fail_once(path: Path, target: Path) -> Path:
        moves.append(target)
        if len(moves) == failing:
            raise error
        return replace(path, target)

    monkeypatch.setattr(Path, "replace", fail_once)
    with pytest.raises((InputError, KeyboardInterrupt)), whole_folder(ours) as folder:
        (folder / "new").touch()
    assert [path.name for path in ours.iterdir()] == [INDEX_NAME]
    assert list(ours.parent.iterdir()) == [ours]


def test_the_old_folder_goes_last(ours: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The new folder is in place before the old one is removed."""
    found: list[list[str]] = []
    remove = shutil.rmtree

    def look(path: Path, *, ignore_errors: bool) -> None:
        found.append([inside.name for inside in ours.iterdir()])
        remove(path, ignore_errors=ignore_errors)

    monkeypatch.setattr(shutil, "rmtree", look)
    with whole_folder(ours) as folder:
        (folder / "new").touch()
    assert found[0] == ["new"]
    assert list(ours.parent.iterdir()) == [ours]


def test_an_old_folder_that_stays_is_no_error(ours: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The new folder is in place although the old one could not be removed."""

    def refuse(*_: object, **__: object) -> None:
        raise OSError("in use")

    monkeypatch.setattr(os, "rmdir", refuse)
    with whole_folder(ours) as folder:
        (folder / "new").touch()
    assert [path.name for path in ours.iterdir()] == ["new"]
