"""Memory of all processes, and the bytes that they read."""

import os
import subprocess
import sys
from pathlib import Path

from netpipe.session.footprint import bytes_read, read_between, read_memory

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
    """All that a new worker has read counts; a worker that has ended adds nothing."""
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
