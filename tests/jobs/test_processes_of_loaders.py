"""CPU time of programs that a loader starts, compared with the programs' own reports."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import grain
import pytest

from netpipe.clock import Clock
from netpipe.diagnosis.experiments import pulling_threads
from netpipe.grain_access.worker_start import let_grain_start_workers
from netpipe.jobs.processes import ProcessTree, process_cpu_s, read_host_cpu
from netpipe.measuring.loader_puller import Puller
from tests.jobs.helper_loaders import USED_S, EndingHelpers, Helper, LivingHelper

ELEMENTS = 3
# CPU time of a program after its report, and the kernel's rounding.
UNREPORTED_S = 0.06
TICK_S = 0.01


@pytest.fixture
def helper() -> Iterator[Helper]:
    """A program that computes on demand."""
    helper = Helper()
    yield helper
    helper.process.kill()
    helper.end()


@pytest.mark.parametrize("transform", [EndingHelpers, LivingHelper])
@pytest.mark.parametrize("workers", [0, 1])
def test_programs_of_a_loader_count(
    transform: type[EndingHelpers | LivingHelper], workers: int
) -> None:
    """CPU time of a map's programs counts once, in any process, whether they end or live."""
    programs, tree = transform(), ProcessTree()
    counters: list[Callable[[], float]] = [
        lambda: _descendants_s(tree), lambda: read_host_cpu().own_s - time.process_time(),
        pulling_threads._workers_cpu_s,
    ]  # fmt: skip
    before_s = [count() for count in counters]

    def loader() -> grain.IterDataset:
        threads = grain.ReadOptions(num_threads=0, prefetch_buffer_size=0)
        dataset = grain.MapDataset.range(ELEMENTS).map(programs.load).to_iter_dataset(threads)
        if workers:
            let_grain_start_workers()
            dataset = dataset.mp_prefetch(grain.MultiprocessingOptions(workers, ELEMENTS))
        return dataset

    puller = Puller(loader, Clock())
    reported_s = float(puller.first_batch[0]) + sum(
        float(puller.pull()[0][0]) for _ in range(ELEMENTS - 1)
    )
    assert reported_s >= ELEMENTS * USED_S
    assert ProcessTree(tree.pids).workers == (workers or transform is LivingHelper)
    loading_s = sum(map(process_cpu_s, puller.processes.worker_pids[:workers]))
    counted_s = [count() - then_s for count, then_s in zip(counters, before_s, strict=True)]
    puller.close()
    programs.close()
    for programs_s in (used_s - loading_s for used_s in counted_s):
        assert reported_s - UNREPORTED_S <= programs_s <= reported_s + ELEMENTS * UNREPORTED_S
    assert _descendants_s(tree) - before_s[0] >= counted_s[0] - TICK_S


def test_a_program_that_starts_later_counts_while_it_lives_and_after(helper: Helper) -> None:
    """A tree that was made before holds its time, and keeps it when the program ends."""
    tree = ProcessTree(without=[helper.process.pid])
    before_s = _descendants_s(tree)
    later = Helper()
    reported_s = later.compute()
    helper.compute()
    assert -TICK_S <= _descendants_s(tree) - before_s - reported_s <= UNREPORTED_S
    later.end()
    assert -TICK_S <= _descendants_s(tree) - before_s - reported_s <= UNREPORTED_S
    again = ProcessTree(without=[helper.process.pid])
    assert _descendants_s(again) >= before_s + reported_s - TICK_S


def _descendants_s(tree: ProcessTree) -> float:
    """Return the CPU seconds of a tree without this process, which also uses some to read them."""
    own_s = time.process_time()  # as `cpu_s` does, before it reads the others
    return tree.cpu_s() - own_s


PARENT = """
import os, signal, sys, time
sys.path.insert(0, {path!r})
from tests.jobs.helper_loaders import Helper
helper = Helper()
print(helper.compute(), helper.process.pid, flush=True)
if sys.stdin.readline() == "forget\\n":
    # The kernel then hands the time of an ended child to nobody.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    helper.process.stdin.close()
    while os.path.exists("/proc/%d" % helper.process.pid): time.sleep(0.01)
os._exit(0)
"""


@pytest.fixture
def parent() -> Iterator["subprocess.Popen[str]"]:
    """A child whose own program has computed; at a line it ends, before the program or after."""
    with subprocess.Popen(
        [sys.executable, "-c", PARENT.format(path=sys.path[0])],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as child:  # fmt: skip
        yield child
        child.kill()


@pytest.mark.parametrize("line", ["leave\n", "forget\n"])
def test_nothing_is_taken_back_when_a_parent_ends(
    parent: "subprocess.Popen[str]", line: str
) -> None:
    """A worker that has not waited for its program does not lose the program's time."""
    assert parent.stdout is not None
    reported_s, program = parent.stdout.readline().split()
    tree = ProcessTree()
    before_s = _descendants_s(tree)
    assert int(program) in tree.pids
    parent.communicate(line)
    for _ in range(2):
        for counted in (tree, ProcessTree()):
            used_s = _descendants_s(counted) - before_s
            assert -TICK_S <= used_s < float(reported_s) / 2


def test_programs_of_strangers_do_not_count(parent: "subprocess.Popen[str]") -> None:
    """Programs that an excluded child has started are excluded too."""
    assert parent.stdout is not None
    tree = ProcessTree(without=[parent.pid])
    before_s = _descendants_s(tree)
    reported_s, program = parent.stdout.readline().split()
    assert _descendants_s(tree) - before_s < TICK_S
    assert int(program) not in ProcessTree(without=[parent.pid]).pids
    assert ProcessTree().cpu_s() - tree.cpu_s() >= float(reported_s)


MANY = """
import subprocess, sys
for _ in range(60):
    subprocess.run(["true"])
"""


def test_readings_never_fall() -> None:
    """Programs that end while they are counted count exactly once."""
    tree = ProcessTree()
    with subprocess.Popen([sys.executable, "-S", "-c", MANY]) as many:
        most_s = 0.0
        while many.poll() is None:
            now_s = tree.cpu_s()
            assert now_s >= most_s - 2 * TICK_S
            most_s = max(most_s, now_s)
    assert tree.cpu_s() >= most_s - 2 * TICK_S
