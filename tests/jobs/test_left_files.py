"""No file and no shared memory of a session outlives it, and nobody else's is touched."""

import os
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path

import pytest

from netpipe.errors import SessionError
from netpipe.jobs import parent
from netpipe.jobs.parent import run_measurement, run_session
from tests.jobs.child_programs import LINT, REQUEST, child


def test_temporary_files_of_the_user_are_left_alone(temporary: Path) -> None:
    """A session sees files from earlier runs, and its own files stay."""
    (temporary / "prepared").mkdir()
    source = (
        "import tempfile\n"
        "kept = pathlib.Path(tempfile.gettempdir(), 'prepared')\n"
        "(kept / 'cached').touch()\n"
        "answer(lint={})"
    )
    run_session(child(temporary, source), LINT)
    assert (temporary / "prepared" / "cached").exists()


TRACED = """
from netpipe.jobs.cleanup import end_this_session
from netpipe.jobs.registry import read_request
from netpipe.measuring.training.profiler_trace import keep_trace

def end():
    (here / "made").write_text(" ".join(map(str, here.glob("netpipe-trace-*"))))
    END

keep_trace(end, here / "kept.trace.json.gz")
"""


def assert_a_trace_was_removed(temporary: Path) -> None:
    """Fail unless the child made a single file, which is gone."""
    made = Path((temporary / "made").read_text())
    assert made.parent == temporary
    assert not made.exists()


def test_a_trace_of_a_killed_child_is_removed(temporary: Path) -> None:
    """A process that is killed while it is traced cleans up nothing."""
    source = TRACED.replace("END", "os.kill(os.getpid(), signal.SIGKILL)")
    with pytest.raises(SessionError, match="SIGKILL"):
        run_measurement(child(temporary, source), REQUEST)
    assert_a_trace_was_removed(temporary)


def test_a_trace_of_an_abandoned_child_is_removed(temporary: Path) -> None:
    """An abandoned process removes its own trace."""
    command = child(temporary, TRACED.replace("END", "end_this_session(read_request())"))
    request = replace(REQUEST, result=str(temporary / "result.json"), parent=1)
    subprocess.run(command, env=parent._variables(os.environ, request), check=False)
    assert_a_trace_was_removed(temporary)


@pytest.fixture
def foreign_memory() -> Iterator[SharedMemory]:
    """Shared memory of another process."""
    memory = SharedMemory(create=True, size=16)
    yield memory
    memory.unlink()


def test_shared_memory_of_a_killed_child_is_removed(
    here: Path, foreign_memory: SharedMemory
) -> None:
    """The child's memory is removed; memory of others stays, even if no process has it open."""
    source = (
        "from multiprocessing.shared_memory import SharedMemory\n"
        "memory = SharedMemory(create=True, size=16); memory.close()\n"
        "(here / 'name').write_text(memory.name)\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    foreign_memory.close()
    with pytest.raises(SessionError, match="SIGKILL"):
        run_measurement(child(here, source), REQUEST)
    assert not Path("/dev/shm", (here / "name").read_text()).exists()
    assert Path("/dev/shm", foreign_memory.name).exists()
