"""Files are written whole or not at all."""

from pathlib import Path

import pytest

from netpipe.errors import InputError
from netpipe.whole_file import refuse_unwritable, writable_folder, write_whole


def test_a_file_takes_the_place_of_the_one_before(tmp_path: Path) -> None:
    """Nothing else is left beside it."""
    path = tmp_path / "picture.svg"
    path.write_text("old and longer", encoding="utf-8")
    with path.open(encoding="utf-8") as reader:
        write_whole(path, "new", "--svg")
        assert reader.read() == "old and longer"  # whoever reads it meanwhile
    assert path.read_text(encoding="utf-8") == "new"
    assert list(tmp_path.iterdir()) == [path]


def test_an_unwritable_file_is_named_and_leaves_nothing(tmp_path: Path) -> None:
    """A folder in the file's place: the error names file and option."""
    path = tmp_path / "picture.svg"
    path.mkdir()
    with pytest.raises(InputError, match=r"picture\.svg: --svg .*writable"):
        write_whole(path, "new", "--svg")
    assert list(tmp_path.iterdir()) == [path]


def test_the_old_content_outlives_a_failure(tmp_path: Path) -> None:
    """A disk that is full when the new text is written takes nothing of the old one."""
    path = tmp_path / "picture.svg"
    path.write_text("old", encoding="utf-8")
    (tmp_path / "picture.svg.part").mkdir()  # nothing can be written there
    with pytest.raises(InputError):
        write_whole(path, "new", "--svg")
    assert path.read_text(encoding="utf-8") == "old"


@pytest.mark.parametrize("folder", [".", "/"])
def test_a_folder_is_no_file(folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder is refused like any other path that cannot be written."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=r"--svg .*writable"):
        write_whole(Path(folder), "new", "--svg")
    assert list(tmp_path.iterdir()) == []


def test_a_text_that_fails_to_encode_leaves_nothing(tmp_path: Path) -> None:
    """No part of it is written."""
    with pytest.raises(UnicodeEncodeError):
        write_whole(tmp_path / "picture.svg", "\ud800", "--svg")
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_can_be_written_is_not_touched(tmp_path: Path) -> None:
    """Neither what is there, nor what is beside it, and one that is not there is not made."""
    path = tmp_path / "page.html"
    refuse_unwritable(path, "--html")
    assert list(tmp_path.iterdir()) == []
    path.write_text("old", encoding="utf-8")
    refuse_unwritable(path, "--html")
    assert path.read_text(encoding="utf-8") == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("name", [".", "/", "absent/page.html"])
def test_a_file_that_cannot_be_written_is_refused_early(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder, and a file in a folder that is not there."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=r"--html .*writable"):
        refuse_unwritable(Path(name), "--html")
    assert list(tmp_path.iterdir()) == []


def test_bytes_are_written_as_they_are(tmp_path: Path) -> None:
    """Bytes are not encoded."""
    write_whole(tmp_path / "trace.gz", b"\x1f\x8b\xff", "--trace")
    assert (tmp_path / "trace.gz").read_bytes() == b"\x1f\x8b\xff"


def test_a_folder_is_made_and_left_empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is there already is as good; its whole path outlives a change of folder."""
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        assert writable_folder(Path("a/b"), "--trace") == tmp_path / "a" / "b"
        assert list((tmp_path / "a" / "b").iterdir()) == []


@pytest.mark.parametrize("path", ["file", "file/below", "/proc/sys"])
def test_an_unwritable_folder_is_named(tmp_path: Path, path: str) -> None:
    """A file in its place or above it, and a folder that takes no file, of root neither."""
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match=rf"{path}: --trace .*folder"):
        writable_folder(tmp_path / path, "--trace")
