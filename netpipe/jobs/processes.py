"""The processes of a session, their CPU time, and the CPU time of other programs."""

import multiprocessing.process
import os
import resource
import signal
import sys
import threading
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import psutil

_TRACKER = "multiprocessing.resource_tracker"
_HELPERS = (_TRACKER, "multiprocessing.forkserver")
LOWER_BUFFERS = "lower per_worker_buffer_size, worker_buffer_size or the number of workers"
_OUT_OF_MEMORY_SIGNALS = (signal.SIGKILL, signal.SIGBUS)  # SIGBUS if /dev/shm is full
# CPUCLOCK_SCHED and CPUCLOCK_PERTHREAD_MASK of the kernel's posix-timers.h
_SCHEDULER_CLOCK = 2
_THREAD_CLOCK = 4
_MAX_READINGS = 5
_SWITCH_S = 1e-5
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_SCHEDULING = Path("/proc/thread-self/schedstat")
_USABLE_CPUS = os.sched_getaffinity(0)  # A loader may bind this process to fewer later.
# False if the kernel was built without CONFIG_PROC_CHILDREN.
_THREADS_LIST_CHILDREN = Path(f"/proc/self/task/{os.getpid()}/children").exists()


class ProcessTree:
    """This process and its current descendants, which include the loader's workers.

    `cpu_s` includes later and ended descendants too. The processes in `without` and their
    descendants are never included.
    """

    def __init__(self, without: Collection[int] = ()) -> None:
        self._without = frozenset(without)
        self._parents = list_descendants(os.getpid())
        counted = _without_subtrees(self._parents, self._without)
        # A zombie has ended, but its parent has not waited for it.
        self.pids = tuple(pid for pid in counted if _stat_fields(pid)[:1] != [b"Z"])

    @cached_property
    def worker_pids(self) -> tuple[int, ...]:
        """The descendants without the helpers of Python's multiprocessing."""
        return _without_helpers(self.pids, self._parents)

    @property
    def workers(self) -> int:
        """The number of worker processes, without the programs that they have started."""
        return len(self.worker_cpu_s())

    def worker_cpu_s(self) -> dict[int, float]:
        """Return the CPU seconds of each worker process by pid; 0 for one that has ended."""
        own = [pid for pid in self.worker_pids if self._parents[pid] not in self.worker_pids]
        return {pid: process_cpu_s(pid) for pid in own}

    def cpu_s(self) -> float:
        """Return the CPU seconds of this process and its descendants, including ended ones."""
        return time.process_time() + _DESCENDANTS.cpu_s(self._without)

    def children_cpu_s(self) -> float:
        """Return the CPU seconds of the descendants; one that has ended counts as 0."""
        return sum(map(process_cpu_s, self.pids))


class _Descendants:
    """The CPU time of all descendants of this process.

    The kernel adds the time of an ended process to the parent that waits for it. If no parent
    waits, the kernel discards the time, and the last reading is kept instead.
    """

    def __init__(self) -> None:
        self._forget()
        # A forked child has descendants of its own.
        os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        self._lock = threading.Lock()
        self._last_s = self._lost_s = 0.0

    def cpu_s(self, without: frozenset[int]) -> float:
        """Return the CPU seconds of all descendants except those in or below `without`."""
        with self._lock, _gil_back_at_once():
            parents, used_s, is_steady = _read_used()
            if sum(used_s.values()) < self._last_s:
                # The kernel's list may miss a child while another one ends.
                parents, used_s, is_steady = _read_used()
            now_s = sum(used_s.values())
            if is_steady:
                self._lost_s += max(0.0, self._last_s - now_s)
                self._last_s = now_s
            counted = {os.getpid(), *_without_subtrees(parents, without)}
            return now_s + self._lost_s - sum(used_s[pid] for pid in used_s.keys() - counted)


_DESCENDANTS = _Descendants()


@contextmanager
def _gil_back_at_once() -> Iterator[None]:
    """Get the GIL back soon after each system call, although threads of the loader compute.

    Otherwise each of some hundred calls waits for 5 ms or more, and the loader fills its buffers
    meanwhile: a block that begins with such a reading would be timed from them.
    """
    before_s = sys.getswitchinterval()
    sys.setswitchinterval(_SWITCH_S)
    try:
        yield
    finally:
        sys.setswitchinterval(before_s)


def _read_used() -> tuple[Mapping[int, int], Mapping[int, float], bool]:
    """Return every descendant's parent and CPU seconds, and whether the seconds are exact.

    The seconds include those of ended children; for this process, they are only those. They are not
    exact if a process ended during the reading.
    """
    for _ in range(_MAX_READINGS):
        parents = list_descendants(os.getpid())
        ended_s = _ended_s(parents)
        used_s = {pid: ended_s[pid] + process_cpu_s(pid) for pid in parents}
        used_s[os.getpid()] = ended_s[os.getpid()]
        is_steady = _ended_s(parents) == ended_s
        if is_steady:
            break
    return parents, used_s, is_steady


def list_descendants(pid: int) -> dict[int, int]:
    """Return the parent of every descendant of a process, by pid; parents come first."""
    found: dict[int, int] = {}
    parents = [pid]
    while parents:
        parent = parents.pop()
        children = [pid for pid in _children_of(parent) if pid not in found]
        found |= dict.fromkeys(children, parent)
        parents += children
    return found


def _children_of(pid: int) -> list[int]:
    """Return the children of a process, including zombies, from the lists of its threads.

    psutil reads every process of the host and takes five times as long, which would disturb a
    loader while the harness waits for it to become idle.
    """
    if not _THREADS_LIST_CHILDREN:
        with suppress(psutil.Error):
            return [child.pid for child in psutil.Process(pid).children()]
    found: list[int] = []
    with suppress(OSError), os.scandir(f"/proc/{pid}/task") as tasks:
        for thread in tasks:
            found += map(int, _read(f"{thread.path}/children").split())
    return found


def _stat_fields(pid: int) -> list[bytes]:
    """Return a process's fields of proc(5), from its state on; empty if it is gone."""
    return _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()


def _without_subtrees(tree: Mapping[int, int], without: Collection[int]) -> list[int]:
    """Return the processes of a tree that are neither in nor below `without`."""
    excluded = set(without)
    for pid, parent in tree.items():
        if parent in excluded:
            excluded.add(pid)
    return [pid for pid in tree if pid not in excluded]


def _without_helpers(pids: Collection[int], parents: Mapping[int, int]) -> tuple[int, ...]:
    alike = {pid for pid in pids if _is_running(pid, _HELPERS)}
    # A fork server's workers have its command line.
    return tuple(pid for pid in pids if pid not in alike or parents[pid] in alike)


def bind_workers_alike(*pids: int) -> None:
    """Bind the n-th workers of processes to the same cores, if all have the same number of workers.

    A core that is slow for a while then slows all processes alike. Nothing is bound if a worker is
    bound to other cores already: the user may compare just that.
    """
    cores, workers = sorted(_USABLE_CPUS), list[list[int]]()
    for parents in map(list_descendants, pids):
        living = [pid for pid in parents if _stat_fields(pid)[:1] != [b"Z"]]
        found = _without_helpers(living, parents)
        workers.append(sorted(pid for pid in found if parents[pid] not in found))
    count = len(workers[0])
    if any(len(each) != count for each in workers):
        return
    shared = [
        set(cores[n * len(cores) // count : -(-(n + 1) * len(cores) // count)])
        for n in range(count)
    ]
    with suppress(OSError):  # A worker has ended.
        partners = list(zip(shared, *workers, strict=True))
        known = ((os.sched_getaffinity(pid), own) for own, *each in partners for pid in each)
        if all(bound in (own, _USABLE_CPUS) for bound, own in known):
            for own, *each in partners:
                for pid in each:
                    _bind_threads(pid, own)


def _bind_threads(pid: int, cores: set[int]) -> None:
    for thread in Path(f"/proc/{pid}/task").iterdir():
        with suppress(OSError):  # It has ended.
            if os.sched_getaffinity(int(thread.name)) == _USABLE_CPUS:
                os.sched_setaffinity(int(thread.name), cores)


def _ended_s(living: Collection[int]) -> dict[int, float]:
    """Return the CPU seconds of ended children by parent: this process and all in `living`."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    found = {os.getpid(): ended.ru_utime + ended.ru_stime}
    return found | {pid: _waited_for_s(pid) for pid in living}


def _waited_for_s(pid: int) -> float:
    """Return the CPU seconds of the ended children that a process has waited for."""
    return sum(map(int, _stat_fields(pid)[13:15])) / _TICKS_PER_S  # cutime and cstime in proc(5)


def _read(path: str) -> bytes:
    """Return the contents of a /proc file; b"" if its process or thread has ended."""
    try:
        with open(path, "rb", buffering=0) as file:  # noqa: PTH123  # a Path takes twice as long
            return file.read()
    except OSError:
        return b""


def process_cpu_s(pid: int) -> float:
    """Return another process's CPU time, to the nanosecond; 0 if it has ended.

    The clock's number is built as in the kernel's MAKE_PROCESS_CPUCLOCK, because Python does not
    offer clock_getcpuclockid(3).
    """
    return _clock_s((~pid << 3) | _SCHEDULER_CLOCK)


def tree_cpu_s(pid: int) -> float:
    """Return the CPU seconds of another process, its descendants and their ended children."""
    tree = (pid, *list_descendants(pid))
    return sum(process_cpu_s(each) + _waited_for_s(each) for each in tree)


def thread_cpu_s(thread: int) -> float:
    """Return the CPU time that a thread of this process has used; 0 if it has ended."""
    return _clock_s((~thread << 3) | _SCHEDULER_CLOCK | _THREAD_CLOCK)


def core_delay_s() -> float:
    """Return the seconds that this thread has waited for a core: proc_pid_schedstat(5)."""
    with suppress(OSError, IndexError, ValueError):
        return int(_SCHEDULING.read_text(encoding="ascii").split()[1]) / 1e9
    return 0.0


def _clock_s(number: int) -> float:
    try:
        return time.clock_gettime(number)
    except OSError:
        return 0.0


def list_own_threads() -> frozenset[int]:
    """Return the ids of this process's threads, including those that Python did not start."""
    return frozenset(int(entry.name) for entry in Path("/proc/self/task").iterdir())


def is_of_xla(thread: int) -> bool:
    """Return whether a thread of this process belongs to XLA's pool for computing on the CPU."""
    return _read(f"/proc/self/task/{thread}/comm").startswith(b"tf_XLA")


def age_s(pid: int) -> float:
    """Return a process's age in seconds, to a hundredth; raise ProcessLookupError if it is gone."""
    fields = _stat_fields(pid)
    if not fields:
        raise ProcessLookupError(pid)
    started_s = int(fields[19]) / _TICKS_PER_S  # starttime in proc(5)
    return time.clock_gettime(time.CLOCK_BOOTTIME) - started_s


def is_resource_tracker(pid: int) -> bool:
    """Return whether a process is Python's resource tracker, which removes shared memory."""
    return _is_running(pid, (_TRACKER,))


def _is_running(pid: int, modules: tuple[str, ...]) -> bool:
    try:
        words = psutil.Process(pid).cmdline()
    except psutil.Error:
        return False
    return any(module in word for module in modules for word in words)


def describe_crash(pid: int) -> str:
    """Return how a child of this process crashed: "by SIGKILL", "with code 3".

    Return "" for a child that is running, ended without an error, or has been waited for already.
    The parent can still wait for a crashed child afterwards.
    """
    try:
        ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return ""
    if ended is None:
        return ""
    exited = ended.si_code == os.CLD_EXITED
    return describe_exit(ended.si_status if exited else -ended.si_status)


def describe_exit(code: int | None) -> str:
    """Return how a process ended, by its exit code: "with code 3"; "" without an error."""
    if not code or code > 0:
        return f"with code {code}" if code else ""
    advice = (
        f" (memory may have run out: {LOWER_BUFFERS})" if -code in _OUT_OF_MEMORY_SIGNALS else ""
    )
    # Most real-time signals have no name.
    name = next((each.name for each in signal.Signals if each == -code), f"signal {-code}")
    return f"by {name}{advice}"


def list_workers() -> dict[int, str]:
    """Return, by pid, how each multiprocessing process that is not yet joined crashed, or ""."""
    # `active_children` would forget ended processes.
    known = multiprocessing.process._children.copy()  # type: ignore[attr-defined]  # noqa: SLF001
    return {child.pid: describe_exit(child.exitcode) for child in known if child.pid}


def describe_activity(pid: int) -> str:
    """Return the state of a process in words: "sleeping, 1.25 CPU seconds used"."""
    try:
        process = psutil.Process(pid)
        times = process.cpu_times()
        if process.status() == psutil.STATUS_ZOMBIE:
            return "has ended"
    except psutil.Error:
        return "is gone"
    return f"{process.status()}, {times.user + times.system:.2f} CPU seconds used"


@dataclass(frozen=True)
class HostCpu:
    """A reading of the host's CPU time.

    Attributes:
        busy_s: CPU seconds used by any program, or taken from this virtual machine.
        total_s: Elapsed seconds, summed over the CPUs that count.
        own_s: CPU seconds used by the processes that are measured.
    """

    busy_s: float
    total_s: float
    own_s: float


def read_host_cpu(own_s: float | None = None) -> HostCpu:
    """Read the CPU time of the CPUs that this process could use when it started.

    `own_s` defaults to that of this process and all below it.
    """
    listed = psutil.cpu_times(percpu=True)
    # Some containers list only their own CPUs, with other numbers.
    is_own = len(listed) <= len(_USABLE_CPUS)
    usable = [times for number, times in enumerate(listed) if is_own or number in _USABLE_CPUS]
    counted = usable or listed
    total_s = sum(sum(times) - times.guest - times.guest_nice for times in counted)
    idle_s = sum(times.idle + times.iowait for times in counted)
    own_s = ProcessTree().cpu_s() if own_s is None else own_s
    return HostCpu(total_s - idle_s, total_s, own_s)


def busy_elsewhere_fraction(before: HostCpu, after: HostCpu) -> float:
    """Return the fraction of the host's CPU time that other programs took between two readings."""
    total_s = after.total_s - before.total_s
    elsewhere_s = (after.busy_s - before.busy_s) - (after.own_s - before.own_s)
    return min(1.0, max(0.0, elsewhere_s / total_s)) if total_s > 0 else 0.0
