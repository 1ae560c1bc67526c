"""Killed processes of a session leave nothing in /dev/shm."""

import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from netpipe.jobs.cleanup import end_child

MEMORY = Path("/dev/shm")  # where the system keeps shared memory
# The parent makes no memory; its child is killed between the making and the registering.
PARENT = """
import subprocess, sys
subprocess.run([sys.executable, "-c", sys.argv[1], *sys.argv[2:]])
"""
WORKER = """
import sys, time
from multiprocessing import resource_tracker
from multiprocessing.shared_memory import SharedMemory
old = [open(path, "rb") for path in sys.argv[1:]]
resource_tracker.register = lambda *_: None
memory = SharedMemory(create=True, size=16)
print(memory.name, flush=True)
time.sleep(600)
"""


def random_name() -> Path:
    """Return the path of a piece of shared memory, as Python chooses it."""
    return MEMORY / f"psm_{uuid.uuid4().hex[:8]}"


@pytest.fixture
def older_memory() -> Iterator[Path]:
    """Shared memory of another process, which the worker opens."""
    path = random_name()
    path.write_bytes(b"theirs")
    yield path
    path.unlink(missing_ok=True)


@pytest.fixture
def worker(older_memory: Path, tmp_path: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """A session's process whose child has just made shared memory."""
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, WORKER, str(older_memory)],
        stdout=subprocess.PIPE,
        start_new_session=True,
        cwd=tmp_path,
    ) as parent:
        yield parent
        if parent.poll() is None:
            parent.kill()


def test_new_memory_is_removed(worker: "subprocess.Popen[bytes]", older_memory: Path) -> None:
    """No tracker knows the memory; memory from before the worker started stays."""
    assert worker.stdout is not None
    made = MEMORY / worker.stdout.readline().decode().strip()
    assert made.exists()
    end_child(worker, "no result")
    assert not made.exists()
    assert older_memory.read_bytes() == b"theirs"
    assert not psutil.pid_exists(worker.pid)
