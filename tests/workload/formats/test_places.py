"""Files by path or URI, on any file system."""

import pickle
from pathlib import Path

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from netpipe.errors import InputError
from netpipe.workload.formats.places import find_place


@pytest.fixture
def memory() -> str:
    """The URI of an empty folder in fsspec's memory."""
    files = fsspec.filesystem("memory")
    files.store.clear()
    return "memory://folder"


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_a_local_path_and_its_uri_are_one_place(tmp_path: Path, scheme: str) -> None:
    """Both are local, and errors name the path."""
    place = find_place(f"{scheme}{tmp_path}")
    assert place.is_local
    assert place.path == str(place) == str(tmp_path)


def test_files_are_written_read_and_listed(memory: str, tmp_path: Path) -> None:
    """Files are whole, and listed in the order of their paths, in memory and on disk."""
    for top in (find_place(memory), find_place(tmp_path)):
        top.make_folder()
        (top / "b").make_folder()
        for name in ("b/1", "a2", "a"):
            (top / name).write(name.encode(), b"!")
        assert (top / "b/1").read() == b"b/1!"
        assert (top / "absent").read() is None
        assert [str(file) for file, _ in top.files()] == [
            f"{top}/{name}" for name in ("a", "a2", "b/1")
        ]
        assert list((top / "absent").files()) == []
        (top / "a").delete()
        (top / "a").delete()
        assert (top / "a").read() is None


def test_a_local_file_is_copied_there_and_back(memory: str, tmp_path: Path) -> None:
    """The content is the same on the local disk and elsewhere."""
    for top in (find_place(memory), find_place(tmp_path)):
        (tmp_path / "made").write_bytes(b"content")
        (top / "x").put(tmp_path / "made")
        (top / "x").get(tmp_path / "back")
        assert (tmp_path / "back").read_bytes() == b"content"
        (tmp_path / "back").unlink()


def test_a_password_is_not_shown() -> None:
    """The place has the password, and its name does not."""
    place = find_place("s3://key:secret@bucket/a?endpoint_override=127.0.0.1:1&scheme=http")
    inside = place / "b.parquet"
    assert str(inside) == "s3://bucket/a/b.parquet?endpoint_override=127.0.0.1:1&scheme=http"
    assert inside.path == "bucket/a/b.parquet"
    assert pickle.loads(pickle.dumps(inside)).filesystem == place.filesystem


def test_a_password_that_makes_a_uri_invalid_is_not_shown() -> None:
    """A slash in it must be quoted; the error shows nothing of it."""
    with pytest.raises(InputError, match=r"^s3://bucket/a: ") as raised:
        find_place("s3://key:sec/ret@bucket/a")
    assert "ret" not in str(raised.value)


@pytest.mark.parametrize("uri", ["nowhere://a", "s3://bucket/a?colour=red"])
def test_a_uri_of_no_file_system_is_refused(uri: str) -> None:
    """The error names the URI and the missing package."""
    with pytest.raises(InputError, match=rf"^{uri.partition('?')[0]}.*name a file system.*fsspec"):
        find_place(uri)


def test_a_server_that_is_not_there(memory: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the place and a way out."""

    def refuse(*_: object, **__: object) -> None:
        raise OSError("AWS Error NETWORK_CONNECTION")

    place = find_place(memory)
    monkeypatch.setattr(MemoryFileSystem, "info", refuse)
    with pytest.raises(InputError, match=rf"^{memory}: .*readable; .*NETWORK.*credentials"):
        place.info()
