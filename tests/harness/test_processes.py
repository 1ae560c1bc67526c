"""CPU time: of this process, of its children while they live and after, and of everything else."""

import subprocess
import sys
from collections.abc import Iterator

import pytest

from netpipe.harness.processes import (
    HostCpu,
    ProcessTree,
    busy_elsewhere_fraction,
    read_host_cpu,
)

USED_S = 0.05
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


def test_a_living_child_counts(burner: "subprocess.Popen[str]") -> None:
    """The CPU time of a tree holds what its children have used until now."""
    with_child, alone = ProcessTree(), ProcessTree()
    alone._children.clear()
    assert burner.pid in with_child._children
    assert with_child.children >= 1
    assert with_child.cpu_s() - alone.cpu_s() >= USED_S / 2


def test_a_child_that_ended_counts_on(burner: "subprocess.Popen[str]") -> None:
    """CPU time is never taken back when a worker ends."""
    tree = ProcessTree()
    before = tree.cpu_s()
    burner.communicate("\n")
    assert tree.cpu_s() >= before
    assert ProcessTree().cpu_s() >= before


def test_the_host_is_as_busy_as_this_process_at_least() -> None:
    """A reading holds this process's own time, and no more busy than total time."""
    reading = read_host_cpu()
    assert 0 < reading.busy_s <= reading.total_s
    assert reading.own_s > 0


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
def test_what_is_busy_and_not_ours_is_elsewhere(
    busy_s: float, own_s: float, total_s: float, expected: float
) -> None:
    """The share lies between 0 and 1, whatever the two clocks' rounding says."""
    before = HostCpu(10.0, 100.0, 5.0)
    after = HostCpu(10.0 + busy_s, 100.0 + total_s, 5.0 + own_s)
    assert busy_elsewhere_fraction(before, after) == pytest.approx(expected)
