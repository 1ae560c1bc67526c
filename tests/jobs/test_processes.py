"""CPU time: of this process, of its children while they live and after, and of everything else."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path

import psutil
import pytest

from netpipe.jobs import processes
from netpipe.jobs.processes import (
    LOWER_BUFFERS,
    HostCpu,
    ProcessTree,
    bind_workers_alike,
    busy_elsewhere_fraction,
    describe_activity,
    describe_crash,
    describe_exit,
    is_resource_tracker,
    list_workers,
    read_host_cpu,
)

USED_S = 0.05
KILLED = f"by SIGKILL (memory may have run out: {LOWER_BUFFERS})"
BURN = (
    f"import time\nwhile time.process_time() < {USED_S}: pass\nprint('burnt', flush=True)\ninput()"
)


@pytest.fixture
def burner() -> Iterator["subprocess.Popen[str]"]:
    """A child that has used some CPU time and waits for a line before it ends."""
    with subprocess.Popen(
        [sys.executable, "-c", BURN], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "burnt\n"
        yield child
        child.kill()


def test_a_zombie_is_no_worker(burner: "subprocess.Popen[str]") -> None:
    """An orphan that has ended stays a zombie where its adopter waits for nobody."""
    burner.kill()
    os.waitid(os.P_PID, burner.pid, os.WEXITED | os.WNOWAIT)
    assert burner.pid not in ProcessTree().pids


HELPER = """
import multiprocessing, sys
from multiprocessing import forkserver, resource_tracker
resource_tracker.ensure_running()
forkserver.ensure_running()
from netpipe.jobs.processes import ProcessTree
import subprocess
nap = subprocess.Popen(["sleep", "1000"])
tree = ProcessTree()
print(len(tree.pids), tree.workers, tree.worker_pids == (nap.pid,))
nap.kill()
"""


FORK_SERVER = """
import multiprocessing, time
from netpipe.jobs.processes import ProcessTree
if __name__ == "__main__":
    context = multiprocessing.get_context("forkserver")
    naps = [context.Process(target=time.sleep, args=(1000,)) for _ in range(2)]
    for nap in naps:
        nap.start()
    tree = ProcessTree()
    print(sorted(tree.worker_pids) == sorted(nap.pid for nap in naps), tree.workers)
    for nap in naps:
        nap.kill()
"""


def test_the_workers_of_a_fork_server_are_workers(tmp_path: Path) -> None:
    """They have the command line of the server, which is none."""
    (script := tmp_path / "script.py").write_text(FORK_SERVER)
    done = subprocess.run([sys.executable, script], capture_output=True, text=True)
    assert done.stdout == "True 2\n", done.stderr


def test_the_helpers_of_multiprocessing_are_no_workers() -> None:
    """Python's resource tracker and fork server are children, but they load nothing."""
    done = subprocess.run([sys.executable, "-c", HELPER], capture_output=True, text=True)
    assert done.stdout == "3 1 True\n", done.stderr


USABLE = sorted(os.sched_getaffinity(0))
on_two_cores = pytest.mark.skipif(len(USABLE) < 2, reason="one core cannot be divided")


@contextmanager
def family(workers: int) -> Iterator[psutil.Process]:
    """A process with some children that sleep."""
    command = ["sh", "-c", f"{'sleep 1000 & ' * workers}echo; wait"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, process_group=0) as shell:
        assert shell.stdout is not None
        try:
            shell.stdout.readline()
            yield psutil.Process(shell.pid)
        finally:
            os.killpg(shell.pid, signal.SIGKILL)


def cores_of(process: psutil.Process) -> list[list[int]]:
    """The cores of each child."""
    return [sorted(child.cpu_affinity()) for child in process.children()]


@on_two_cores
def test_the_workers_of_two_processes_get_the_same_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cores are divided evenly among the workers of each process."""
    monkeypatch.setattr(processes, "_USABLE_CPUS", set(USABLE[:2]))
    first, second = ([core] for core in USABLE[:2])
    for workers, expected in ((2, [first, second]), (3, [first, first + second, second])):
        with family(workers) as one, family(workers) as other:
            for child in (*one.children(), *other.children()):
                child.cpu_affinity(USABLE[:2])
            for _ in range(2):
                bind_workers_alike(one.pid, other.pid)
                assert cores_of(one) == cores_of(other) == expected


@on_two_cores
def test_workers_without_partners_and_bound_ones_are_left_alone() -> None:
    """Binding would favour the process with fewer workers, or undo the user's own binding."""
    with family(2) as one, family(3) as other, family(2) as bound:
        bind_workers_alike(one.pid, other.pid)
        assert [*cores_of(one), *cores_of(other)] == [USABLE] * 5
        bound.children()[0].cpu_affinity([USABLE[-1]])
        bind_workers_alike(one.pid, bound.pid)
        assert cores_of(one) == [USABLE] * 2
        assert cores_of(bound) == [[USABLE[-1]], USABLE]


def test_a_tracker_is_known_by_what_it_runs(burner: "subprocess.Popen[str]") -> None:
    """Other processes are not trackers, and neither is a process that is gone."""
    assert not is_resource_tracker(burner.pid)
    source = "'multiprocessing.resource_tracker'; print(flush=True); input()"
    command = [sys.executable, "-c", source]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as tracker:
        assert tracker.stdout is not None
        tracker.stdout.readline()  # by now its command line is that of the program
        assert is_resource_tracker(tracker.pid)
        tracker.communicate(b"\n")
    assert not is_resource_tracker(tracker.pid)


@pytest.mark.parametrize(
    ("source", "crash"),
    [
        ("import os; os.kill(os.getpid(), 9)", KILLED),
        ("raise SystemExit(3)", "with code 3"),
        ("", ""),
    ],
)
def test_a_described_crash_can_still_be_waited_for(source: str, crash: str) -> None:
    """The parent can still read the child's exit code; exit code 0 is not a crash."""
    child = subprocess.Popen([sys.executable, "-c", source])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert describe_crash(child.pid) == crash
    assert describe_crash(child.pid) == crash
    assert describe_activity(child.pid) == "has ended"
    assert (child.wait() != 0) == bool(crash)
    assert describe_crash(child.pid) == ""
    assert describe_activity(child.pid) == "is gone"


@pytest.mark.parametrize(
    ("target", "argument", "crash"),
    [(os._exit, 0, ""), (os._exit, 3, "with code 3"), (signal.raise_signal, 9, KILLED)],
)
def test_a_worker_is_known_until_it_is_joined(
    target: Callable[[int], object], argument: int, crash: str
) -> None:
    """A process of Python's multiprocessing is listed with its crash, if it crashed."""
    process = get_context("spawn").Process(target=target, args=(argument,))
    process.start()
    # Its sentinel is ready a moment earlier.
    os.waitid(os.P_PID, process.pid or 0, os.WEXITED | os.WNOWAIT)
    assert list_workers()[process.pid or 0] == crash
    process.join()
    assert process.pid not in list_workers()


@pytest.mark.parametrize(
    ("code", "name", "is_memory"),
    [(-9, "SIGKILL", True), (-7, "SIGBUS", True), (-15, "SIGTERM", False), (-11, "SIGSEGV", False)],
)
def test_a_process_that_the_kernel_ended_for_its_memory_names_the_settings(
    code: int, name: str, is_memory: bool
) -> None:
    """The kernel kills a process when memory runs out, and one that writes to a full /dev/shm."""
    ending = describe_exit(code)
    assert ending.startswith(f"by {name}")
    assert ("lower per_worker_buffer_size, worker_buffer_size or " in ending) == is_memory


def test_a_signal_without_a_name_has_its_number() -> None:
    """Python names only the first and the last of the real-time signals."""
    assert describe_exit(-(signal.SIGRTMIN + 1)) == f"by signal {signal.SIGRTMIN + 1}"


def test_a_living_child_has_not_crashed(burner: "subprocess.Popen[str]") -> None:
    """The child's activity is described with the CPU time that it has used."""
    assert describe_crash(burner.pid) == ""
    assert re.fullmatch(r"[a-z-]+, \d+\.\d\d CPU seconds used", describe_activity(burner.pid))


def test_the_host_is_as_busy_as_this_process_at_least() -> None:
    """A reading holds this process's own time, and no more busy than total time."""
    reading = read_host_cpu()
    assert 0 < reading.busy_s <= reading.total_s
    assert reading.own_s > 0


@pytest.mark.parametrize(
    ("usable", "busy_s"), [({1}, 20.0), ({0, 2}, 40.0), ({0, 1, 2}, 60.0), ({7, 8, 9}, 60.0)]
)
def test_only_cpus_that_a_session_may_use_count(
    monkeypatch: pytest.MonkeyPatch, usable: set[int], busy_s: float
) -> None:
    """A container may list only its own CPUs, by other numbers than the kernel's."""
    times = type(psutil.cpu_times())
    no_time = dict.fromkeys(times._fields, 0.0)
    listed = [times(**no_time | {"user": busy, "idle": 100 - busy}) for busy in (10.0, 20.0, 30.0)]
    monkeypatch.setattr(psutil, "cpu_times", lambda **_: listed)
    monkeypatch.setattr(processes, "_USABLE_CPUS", usable)
    reading = read_host_cpu(own_s=0.0)
    assert (reading.busy_s, reading.total_s) == (busy_s, 100.0 * len(usable))


@pytest.mark.parametrize(
    ("busy_s", "own_s", "total_s", "expected"),
    [
        (1.0, 1.0, 4.0, 0.0),
        (3.0, 1.0, 4.0, 0.5),
        (4.0, 0.0, 4.0, 1.0),
        (1.0, 1.1, 4.0, 0.0),
        (5.0, 0.0, 4.0, 1.0),
        (0.0, 0.0, 0.0, 0.0),
    ],
)
def test_busy_time_that_is_not_ours_is_elsewhere(
    busy_s: float, own_s: float, total_s: float, expected: float
) -> None:
    """The fraction lies between 0 and 1, however the two clocks are rounded."""
    before = HostCpu(10.0, 100.0, 5.0)
    after = HostCpu(10.0 + busy_s, 100.0 + total_s, 5.0 + own_s)
    assert busy_elsewhere_fraction(before, after) == pytest.approx(expected)


def test_a_reading_does_not_wait_for_computing_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of its system calls gets the GIL back at once, and then threads switch as before."""
    during_s: list[float] = []

    def list_none(_: int) -> dict[int, int]:
        during_s.append(sys.getswitchinterval())
        return {}

    tree, before_s = ProcessTree(), sys.getswitchinterval()
    monkeypatch.setattr(processes, "list_descendants", list_none)
    tree.cpu_s()
    assert max(during_s) < 1e-4 < before_s
    assert sys.getswitchinterval() == before_s
