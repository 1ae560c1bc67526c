"""The machine's description for `netpipe doctor`, from fake kernel files and a fake driver."""

import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from netpipe.device.machine import count_throttled_periods, describe_machine, find_disturbances

GIB = 2**30
IDLE = SimpleNamespace(user=3.0, nice=0.0, system=1.0, irq=0.0, softirq=0.0, steal=0.0)
QUIET: dict[str, Any] = {
    "affinity_cpus": 8,
    "quota_cores": None,
    "swap_used_bytes": 0,
    "shm_free_bytes": 8 * GIB,
    "open_files_limit": 4096,
    "governors": ["performance"],
    "turbo": False,
    "gpus": [{"name": "H100", "used_bytes": 500 * 2**20, "busy_fraction": 0.0}],
}


SHARE = """
import os
from multiprocessing.shared_memory import SharedMemory

arrays = []
for _ in range(2):
    arrays.append(SharedMemory(create=True, size=4096))
    print(len(os.listdir("/proc/self/fd")))
for array in arrays:
    array.close()
    array.unlink()
"""


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the root folder of a machine with 8 CPUs and 32 GiB."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: set(range(8)))
    swap = "SwapTotal: 2048 kB\nSwapFree: 1024 kB\n"
    write(tmp_path, "proc/meminfo", f"MemTotal: {32 * GIB // 1024} kB\n{swap}")
    write(tmp_path, "proc/self/cgroup", "0::/job\n")
    return tmp_path


def write(root: Path, name: str, text: str) -> None:
    """Write a kernel file into the fake root."""
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(text)


def driver(answer: str, code: int = 0) -> list[str]:
    """Return a command that answers as `nvidia-smi` would."""
    return [sys.executable, "-c", f"print({answer!r}); raise SystemExit({code})"]


def test_throttled_periods_of_all_cgroups_are_counted(root: Path) -> None:
    """The quota of each cgroup above the process may stop it."""
    write(root, "sys/fs/cgroup/cpu.stat", "nr_periods 9\nnr_throttled 2\n")
    write(root, "sys/fs/cgroup/job/cpu.stat", "nr_periods 9\nnr_throttled 3\nthrottled_usec 77\n")
    assert count_throttled_periods(root) == 5


def test_a_kernel_without_files_counts_nothing(tmp_path: Path) -> None:
    """Missing files are not an error."""
    assert count_throttled_periods(tmp_path) == 0


def test_limits_are_apart_from_what_the_machine_has(root: Path) -> None:
    """The machine's memory and cores are reported separately from the cgroup's limits."""
    write(root, "sys/fs/cgroup/job/cpu.max", "150000 100000\n")
    write(root, "sys/fs/cgroup/job/memory.max", f"{4 * GIB}\n")
    write(root, "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n")
    write(root, "sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", "powersave\n")
    write(root, "sys/devices/system/cpu/intel_pstate/no_turbo", "0\n")
    write(root, "proc/sys/kernel/perf_event_paranoid", "-1\n")
    write(
        root,
        "proc/self/limits",
        "Max processes  9  9  processes\nMax open files  1024  4096  files\n",
    )
    (root / "dev/shm").mkdir(parents=True)
    found = describe_machine(root, driver("A100, 550.1, 12, 3\nB, [N/A], [N/A], [N/A]"))
    assert found.pop("shm_bytes") >= found.pop("shm_free_bytes") > 0
    assert found == {
        "affinity_cpus": 8,
        "quota_cores": 1.5,
        "memory_bytes": 32 * GIB,
        "memory_limit_bytes": 4 * GIB,
        "swap_used_bytes": 2**20,
        "open_files_limit": 1024,
        "governors": ["powersave"],
        "turbo": True,
        "perf_event_paranoid": -1,
        "gpus": [
            {"name": "A100", "driver": "550.1", "used_bytes": 12 * 2**20, "busy_fraction": 0.03},
            {"name": "B", "driver": "[N/A]", "used_bytes": None, "busy_fraction": None},
        ],
    }


@pytest.mark.parametrize("smi", [["/no/such/file"], driver("No devices were found", 6)])
def test_what_is_not_known_is_null(root: Path, smi: list[str]) -> None:
    """A machine without limits, a driver, /dev/shm and frequencies has nulls."""
    found = describe_machine(root, smi)
    unknown = (
        "quota_cores", "memory_limit_bytes", "shm_bytes", "open_files_limit", "perf_event_paranoid",
    )  # fmt: skip
    assert [found[name] for name in unknown] == [None] * 5
    assert (found["governors"], found["turbo"], found["gpus"]) == ([], False, [])


@pytest.mark.parametrize(("switch", "turbo"), [("1", True), ("0", False)])
def test_turbo_of_other_drivers_is_seen(root: Path, switch: str, turbo: bool) -> None:
    """AMD's and ACPI's drivers call turbo boost."""
    write(root, "sys/devices/system/cpu/cpufreq/boost", switch)
    assert describe_machine(root, ["/no/such/file"])["turbo"] is turbo


def test_a_quiet_machine_has_no_disturbance() -> None:
    """An idle machine with a fixed clock, enough shared memory and a free card is fine."""
    assert find_disturbances(QUIET, IDLE, 0) == []


@pytest.mark.parametrize(
    ("change", "used", "what"),
    [
        ({}, {"user": 29.0, "nice": 10.0, "irq": 4.0, "softirq": 6.0}, "50% of the CPUs"),
        ({}, {"steal": 4.0}, "hypervisor takes 4.0%"),
        ({"quota_cores": 2.5}, {}, "see 8 CPUs but may use 2.5"),
        ({"affinity_cpus": 1}, {}, "share a core"),
        ({"governors": ["performance", "powersave"]}, {}, "governor is powersave"),
        ({"turbo": True}, {}, "turbo is on"),
        ({"swap_used_bytes": 200 * 2**20}, {}, "200 MiB are swapped out"),
        ({"shm_free_bytes": 64 * 2**20}, {}, "64 MiB free"),
        ({"open_files_limit": 1024}, {}, "1024 files may be open; .* need 2240"),
        ({"gpus": [{"name": "L4", "used_bytes": GIB, "busy_fraction": None}]}, {}, "uses the L4"),
        ({"gpus": [{"name": "L4", "used_bytes": None, "busy_fraction": 0.9}]}, {}, "uses the L4"),
    ],
)
def test_each_disturbance_is_told_with_a_remedy(
    change: dict[str, Any], used: dict[str, float], what: str
) -> None:
    """Each disturbance gives one finding with a remedy."""
    busy = SimpleNamespace(**{**vars(IDLE), **used})
    [(found, remedy)] = find_disturbances({**QUIET, **change}, busy, 0)
    assert re.search(what, found)
    assert remedy


def test_a_quota_that_stops_this_process_is_told() -> None:
    """The finding says how often the quota did so."""
    [(found, _)] = find_disturbances(QUIET, IDLE, 2)
    assert "stopped this cgroup 2 times" in found


@pytest.mark.parametrize("cores", [{"affinity_cpus": 2}, {"quota_cores": 2.0}])
def test_a_limit_of_open_files_is_judged_by_the_cores(cores: dict[str, Any]) -> None:
    """A limit that is too low for workers on 8 cores is enough for those on 2."""
    machine = {**QUIET, "open_files_limit": 1024, **cores}
    assert "files" not in str(find_disturbances(machine, IDLE, 0))


def test_an_array_in_shared_memory_takes_two_open_files() -> None:
    """An array in shared memory takes two open files, as the judgement of the limit assumes."""
    # Creating the first array also starts a process that would outlive this test.
    opened = subprocess.run(
        [sys.executable, "-c", SHARE], capture_output=True, check=True, text=True
    ).stdout
    first, second = map(int, opened.split())
    assert second - first == 2
