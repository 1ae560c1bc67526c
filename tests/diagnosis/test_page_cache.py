"""The same batches from the disk and from the page cache."""

import json
import mmap
import os
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import Mock

import pytest

from netpipe.clock import MonotonicClock
from netpipe.diagnosis.experiments import single_thread_run
from netpipe.diagnosis.experiments.pulling_threads import FirstLook
from netpipe.diagnosis.experiments.single_thread_run import (
    SingleThreadRun,
    drop_from_page_cache,
    open_files,
)
from netpipe.diagnosis.experiments.turns import Schedule, Side, SideBlocks
from netpipe.grain_access.nodes import Graph
from netpipe.jobs.heartbeat import UNWATCHED
from netpipe.jobs.targets import Target
from netpipe.measuring.loader_puller import LoaderFactory


def compare(loader: LoaderFactory) -> SideBlocks | None:
    """Compare the disk with the page cache in the fewest rounds."""
    schedule = Schedule(MonotonicClock(), 0.0, UNWATCHED, MonotonicClock()())
    look = FirstLook(start_s=0.0, batch_s=0.1)
    run = SingleThreadRun(loader, Target("a", "b"), Graph(), True, look, schedule, UNWATCHED, [])
    return run.compare_disk_with_cache()


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Return a file of data."""
    path = tmp_path / "data.bin"
    path.write_bytes(b"x" * 10_000)
    return path


def test_files_of_data_are_found(data: Path) -> None:
    """Each file is listed once, while it is open."""
    with data.open("rb"), data.open("rb"):
        assert open_files().count(str(data)) == 1
    assert str(data) not in open_files()


def test_mapped_files_are_found(data: Path) -> None:
    """A file may be mapped and closed."""
    with data.open("rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    assert str(data) in open_files()
    mapped.close()
    assert str(data) not in open_files()


@pytest.mark.parametrize("name", ["a.so", "a.so.6", "a.py", "a.pyc"])
def test_code_is_not_data(tmp_path: Path, name: str) -> None:
    """Libraries, modules and all files of Python are open or mapped in every process."""
    path = tmp_path / name
    path.write_text("x = 1")
    with path.open(), Path(json.__file__).with_name("decoder.py").open():
        assert not [file for file in open_files() if file.startswith(single_thread_run._CODE)]
        assert str(path) not in open_files()


@pytest.mark.parametrize("path", ["/usr/lib/locale/C.utf8/LC_CTYPE", "/dev/shm/x", "/proc/self/io"])
def test_files_of_the_system_are_not_data(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Locales are mapped in every process, and shared memory is not on a disk."""
    monkeypatch.setattr(Path, "is_file", lambda _: True)
    assert not single_thread_run._is_data(path)


def test_files_that_cannot_be_read_again_are_not_data(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Deleted, written, empty and unreadable files are ignored."""
    with data.open("rb"), (tmp_path / "log").open("w") as log, (tmp_path / "empty").open("w+"):
        data.unlink()
        log.write("many words")
        log.flush()
        assert not [path for path in open_files() if path.startswith(str(tmp_path))]
    monkeypatch.setattr(Path, "is_file", Mock(side_effect=PermissionError))
    assert not single_thread_run._is_data("/data/shard")


def test_the_cache_is_dropped_file_by_file(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A missing file does not keep the others."""
    asked: list[tuple[str, int, int, int]] = []

    def advise(descriptor: int, *what: int) -> None:
        offset, length, advice = what
        opened = str(Path(f"/proc/self/fd/{descriptor}").readlink())
        asked.append((opened, offset, length, advice))

    monkeypatch.setattr(os, "posix_fadvise", advise)
    drop_from_page_cache((str(tmp_path / "gone"), str(data)))
    assert asked == [(str(data), 0, 0, os.POSIX_FADV_DONTNEED)]


def test_batches_are_pulled_from_both(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cache is dropped before each cold block, and never before a warm one."""
    happened: list[str] = []

    def loader() -> Iterator[bytes]:
        happened.append("made")
        with data.open("rb") as file:
            while True:
                file.seek(0)
                yield file.read()

    monkeypatch.setattr(single_thread_run, "open_files", lambda: [str(data)])
    monkeypatch.setattr(single_thread_run, "drop_from_page_cache", happened.extend)
    found = compare(loader)
    assert found is not None
    assert found.has(Side.FROM_DISK, Side.CACHED)
    cold, warm = [str(data), "made"], ["made"]
    assert happened == ["made", *cold, *warm, *warm, *cold, *cold, *warm]


def test_a_loader_without_files_is_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is nothing to read again, and the loader is closed."""
    closed: list[object] = []

    class Endless:
        def __iter__(self) -> "Endless":
            return self

        def __next__(self) -> int:
            return 1

        def close(self) -> None:
            closed.append(self)

    monkeypatch.setattr(single_thread_run, "open_files", list)
    assert compare(Endless) is None
    assert len(closed) == 1
