"""Memory of all processes, and bytes that loading reads."""

import os
import subprocess
import sys
from pathlib import Path

from netpipe.throughput.footprint import bytes_read, read_between, read_memory

_HELD = 64 << 20
_HOLDER = f"held = b'x' * {_HELD}; print('ready', flush=True); input()"


def test_what_is_read_from_a_file_is_counted(tmp_path: Path) -> None:
    """Also where the file is in the page cache, since it has just been written."""
    (tmp_path / "file").write_bytes(bytes(1 << 20))
    before = bytes_read(())
    (tmp_path / "file").read_bytes()
    read = read_between(before, bytes_read(()))
    assert 1 << 20 <= read < 1 << 21


def test_workers_are_those_that_read() -> None:
    """Where there are any, this process is not asked: it receives batches; an ended one is none."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as worker:
        assert bytes_read((worker.pid,)).keys() == {worker.pid}
        worker.communicate(b"\n")
    assert bytes_read((worker.pid,)) == {}
    assert bytes_read(()).keys() == {os.getpid()}


def test_reading_counts_from_the_start_of_a_process() -> None:
    """A worker that has started meanwhile has read all that it has; one that is gone adds none."""
    assert read_between({1: 100, 2: 500}, {1: 130, 3: 7}) == 37


def test_memory_is_that_of_all_processes() -> None:
    """What a child holds is in it."""
    before = read_memory()
    with subprocess.Popen(
        [sys.executable, "-c", _HOLDER], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        with_child = read_memory()
        holder.communicate(b"\n")
    assert with_child.pss_bytes - before.pss_bytes > _HELD // 2
    assert with_child.rss_bytes - before.rss_bytes > _HELD // 2
    assert with_child.rss_bytes >= with_child.pss_bytes
