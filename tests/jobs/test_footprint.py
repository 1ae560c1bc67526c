"""Memory of all processes, and the bytes that they read."""

import mmap
import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from netpipe.jobs.footprint import (
    SHARED_FOLDER,
    bytes_read,
    count_open_files,
    free_heap_bytes,
    list_shared_files,
    read_between,
    read_memory,
    read_pss,
)

_HELD = 64 << 20
_HOLDER = f"held = b'x' * {_HELD}; print('ready', flush=True); input()"


def test_bytes_read_from_a_file_are_counted(tmp_path: Path) -> None:
    """Reading a file counts although it is in the page cache."""
    (tmp_path / "file").write_bytes(bytes(1 << 20))
    before = bytes_read(())
    (tmp_path / "file").read_bytes()
    read = read_between(before, bytes_read(()))
    assert 1 << 20 <= read < 1 << 21


def test_only_workers_are_counted_where_there_are_any() -> None:
    """With workers this process does not count, and neither does a worker that has ended."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as worker:
        assert bytes_read((worker.pid,)).keys() == {worker.pid}
        worker.communicate(b"\n")
    assert bytes_read((worker.pid,)) == {}
    assert bytes_read(()).keys() == {os.getpid()}


def test_a_restarted_worker_counts_from_its_start() -> None:
    """Everything that a new worker has read counts; a worker that has ended adds nothing."""
    assert read_between({1: 100, 2: 500}, {1: 130, 3: 7}) == 37


def test_memory_is_that_of_all_processes() -> None:
    """The memory of a child process is included."""
    pss_bytes, rss_bytes = read_memory()
    with subprocess.Popen(
        [sys.executable, "-c", _HOLDER], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        pss_with_child, rss_with_child = read_memory()
        holder.communicate(b"\n")
    assert pss_with_child - pss_bytes > _HELD // 2
    assert rss_with_child - rss_bytes > _HELD // 2
    assert rss_with_child >= pss_with_child


def test_pages_of_files_are_told_apart(tmp_path: Path) -> None:
    """A mapped file counts in the PSS of the process; memory without a file counts in both."""
    file = tmp_path / "mapped"
    file.write_bytes(b"x" * _HELD)
    before = read_pss(os.getpid())
    with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, prot=mmap.PROT_READ) as mapped:
        assert sum(mapped[place] for place in range(0, _HELD, mmap.PAGESIZE))
        mapping = read_pss(os.getpid())
        held = b"y" * _HELD
        holding = read_pss(os.getpid())
    assert len(held) == _HELD
    assert mapping[0] - before[0] > _HELD // 2
    assert mapping[1] - before[1] < _HELD // 2
    assert holding[1] - mapping[1] > _HELD // 2


def test_freed_memory_that_is_kept_is_known() -> None:
    """Every second block is freed; the C library cannot return the pages between the others."""
    blocks = [bytes(60_000) for _ in range(1000)]
    holding = free_heap_bytes()
    del blocks[::2]
    assert free_heap_bytes() - holding == pytest.approx(500 * 60_000, rel=0.2)


def test_without_the_kernels_sum_of_pages_the_resident_memory_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Some sandboxes have no smaps_rollup; a budget of memory must hold there too."""

    def has_no_file(*_: object) -> str:
        raise FileNotFoundError

    monkeypatch.setattr(Path, "read_text", has_no_file)
    me = psutil.Process()
    resident_bytes = sum(each.memory_info().rss for each in (me, *me.children(recursive=True)))
    assert list(read_memory()) == pytest.approx([resident_bytes] * 2, rel=0.2)


def test_an_ended_process_holds_nothing() -> None:
    """An ended process has no memory and no open files, and reading them raises nothing."""
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        ended.wait()
    assert (read_pss(ended.pid), count_open_files(ended.pid)) == ((0, 0), 0)


def test_open_files_and_shared_memory_are_seen() -> None:
    """One more descriptor counts as one, and a file in /dev/shm is listed with its bytes."""
    before = count_open_files(os.getpid())
    name = f"netpipe-test-{os.getpid()}"
    try:
        with (SHARED_FOLDER / name).open("wb") as opened:
            opened.write(bytes(5000))
            opened.flush()
            assert count_open_files(os.getpid()) == before + 1
            assert list_shared_files()[name] == 5000
    finally:
        (SHARED_FOLDER / name).unlink()
    assert name not in list_shared_files()
