"""The description of the host, from fake kernel files and from the real ones."""

import os
from pathlib import Path

import pytest

from netpipe.device.host import host_class, host_difference, is_same_machine, this_host
from netpipe.errors import InputError
from netpipe.results.measurement import Host

GIB = 2**30
CPUINFO = (
    "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 207\n"
    "model name\t: A Xeon @ 2 GHz\nstepping\t: 2\n"
)
ARM_CPUINFO = "processor\t: 0\nCPU implementer\t: 0x41\nCPU architecture: 8\nCPU part\t: 0xd4f\n"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the root folder of a machine with 8 CPUs, 32 GiB and no limits."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: set(range(8)))
    write(tmp_path, "proc/cpuinfo", CPUINFO)
    write(tmp_path, "proc/meminfo", f"MemTotal:       {32 * GIB // 1024} kB\nMemFree: 5 kB\n")
    write(tmp_path, "proc/self/cgroup", "0::/\n")
    return tmp_path


def write(root: Path, name: str, text: str) -> None:
    """Write a kernel file into the fake root."""
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_an_unlimited_process_has_the_whole_machine(root: Path) -> None:
    """Without a quota or a limit, the host has all cores and memory of the machine."""
    assert this_host(root) == Host(
        "A Xeon @ 2 GHz", 8, 32 * GIB, cpu_model="family 6, model 207, stepping 2"
    )


def test_a_kernel_without_family_and_stepping_leaves_the_model_unknown(root: Path) -> None:
    """Only the model name of such a CPU is known."""
    write(root, "proc/cpuinfo", "model\t\t: 207\nmodel name\t: A Xeon @ 2 GHz\n")
    assert this_host(root).cpu_model == ""


def test_affinity_bounds_the_cores(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """CPUs outside the affinity mask are not counted."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: {3, 5})
    assert this_host(root).cores == 2


def test_cgroup_v2_bounds_cores_and_memory(root: Path) -> None:
    """The host has the cores and memory that a version 2 cgroup allows."""
    write(root, "proc/self/cgroup", "0::/user.slice/job\n")
    write(root, "sys/fs/cgroup/user.slice/job/cpu.max", "300000 100000\n")
    write(root, "sys/fs/cgroup/user.slice/job/memory.max", f"{4 * GIB}\n")
    host = this_host(root)
    assert (host.cores, host.memory_bytes) == (3, 4 * GIB)


def test_cgroup_v1_bounds_cores_and_memory(root: Path) -> None:
    """The host has the cores and memory that version 1 cgroups allow, each by its controller."""
    write(root, "proc/self/cgroup", "5:memory:/job\n4:cpuset:/\n3:cpu,cpuacct:/job\n0::/\n")
    write(root, "sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "200000\n")
    write(root, "sys/fs/cgroup/cpu/job/cpu.cfs_period_us", "50000\n")
    write(root, "sys/fs/cgroup/memory/job/memory.limit_in_bytes", f"{2 * GIB}\n")
    host = this_host(root)
    assert (host.cores, host.memory_bytes) == (4, 2 * GIB)


@pytest.mark.parametrize(("outer", "inner"), [(2, 6), (6, 2)])
def test_the_tightest_ancestor_counts(root: Path, outer: int, inner: int) -> None:
    """The lowest limit holds, on the process's own cgroup or any above it."""
    write(root, "proc/self/cgroup", "0::/slice/job\n")
    write(root, "sys/fs/cgroup/slice/cpu.max", f"{outer}00000 100000\n")
    write(root, "sys/fs/cgroup/slice/memory.max", f"{outer * GIB}\n")
    write(root, "sys/fs/cgroup/slice/job/cpu.max", f"{inner}00000 100000\n")
    write(root, "sys/fs/cgroup/slice/job/memory.max", f"{inner * GIB}\n")
    host = this_host(root)
    assert (host.cores, host.memory_bytes) == (2, 2 * GIB)


def test_limits_are_found_if_the_cgroup_path_is_the_outer_hosts(root: Path) -> None:
    """A cgroup path that does not exist here falls back to the top of the mount."""
    write(root, "proc/self/cgroup", "3:cpu,cpuacct:/docker/0f3a\n")
    write(root, "sys/fs/cgroup/cpu/cpu.cfs_quota_us", "100000\n")
    write(root, "sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n")
    assert this_host(root).cores == 1


@pytest.mark.parametrize(
    ("quota", "cores"), [("max 100000", 8), ("150000 100000", 1), ("50000 100000", 1), ("", 8)]
)
def test_a_quota_is_rounded_down_to_whole_cores(root: Path, quota: str, cores: int) -> None:
    """A quota is rounded down to whole cores, but is at least one."""
    write(root, "sys/fs/cgroup/cpu.max", quota)
    assert this_host(root).cores == cores


def test_no_limit_in_cgroup_v1_is_no_limit(root: Path) -> None:
    """Version 1 writes "none" as -1, or as a number beyond any memory."""
    write(root, "proc/self/cgroup", "2:memory:/\n1:cpu:/\n")
    write(root, "sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n")
    write(root, "sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n")
    write(root, "sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n")
    host = this_host(root)
    assert (host.cores, host.memory_bytes) == (8, 32 * GIB)


def test_an_arm_processor_is_named_by_its_part(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A processor without a model name is named by architecture, implementer and part."""
    monkeypatch.setattr("netpipe.device.host.machine", lambda: "aarch64")
    write(root, "proc/cpuinfo", ARM_CPUINFO)
    assert this_host(root).cpu == "aarch64 0x41 0xd4f"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (".dockerenv", ""),
        ("run/.containerenv", ""),
        ("var/run/secrets/kubernetes.io/token", ""),
        ("proc/1/cgroup", "3:cpu:/kubepods/pod7\n"),
    ],
)
def test_a_container_is_recognised(root: Path, name: str, text: str) -> None:
    """The mark of any container engine is enough."""
    write(root, name, text)
    assert this_host(root).container


def test_a_machine_without_memory_is_refused(root: Path) -> None:
    """A meminfo without the memory's size is an error that names the file and the field."""
    write(root, "proc/meminfo", "MemFree: 5 kB\n")
    with pytest.raises(InputError, match=r"meminfo: MemTotal .*kB"):
        this_host(root)


def test_this_very_machine_can_be_described() -> None:
    """The real files are read without error and give plausible numbers."""
    host = this_host()
    assert host.cpu
    assert 1 <= host.cores <= len(os.sched_getaffinity(0))
    assert host.memory_bytes > 0


def test_the_host_class_is_named() -> None:
    """The name has the CPU, the cores, the memory in whole GiB, and whether in a container."""
    host = Host("A Xeon", 2, 24 * GIB - 4096, container=True)
    assert host_class(host) == "A Xeon, 2 cores, 24 GiB, container"


@pytest.mark.parametrize("gib", [0.5, 15.5, 16.0, 23.51, 1024.0])
def test_nearly_as_much_memory_is_the_same_class(gib: float) -> None:
    """Hosts whose memory differs by 3% are of the same class, at any size."""
    host, other = (Host("A Xeon", 2, int(gib * GIB * part), container=True) for part in (1, 0.97))
    assert host_difference(host, other) == host_difference(other, host) == ""


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (Host("A Xeon", 2, 12 * GIB, container=True), "24.0 GiB now, 12.0 GiB then"),
        (Host("A Xeon", 3, 24 * GIB, container=True), "2 cores now, 3 then"),
        (Host("An EPYC", 2, 24 * GIB, container=True), "A Xeon now, An EPYC then"),
        (
            Host("A Xeon", 2, 24 * GIB, container=True, cpu_model="family 6, model 207"),
            "CPU unknown now, family 6, model 207 then",
        ),
        (Host("A Xeon", 2, 24 * GIB), "in a container now, not then"),
    ],
)
def test_the_difference_of_two_hosts_is_named(other: Host, words: str) -> None:
    """Half the memory, one more core, another CPU or no container gives another class."""
    assert host_difference(Host("A Xeon", 2, 24 * GIB, container=True), other) == words


def test_a_machine_differs_from_others_of_its_class(root: Path) -> None:
    """Machines are distinguished by a digest that does not reveal the id."""
    (root / "etc").mkdir(exist_ok=True)
    (root / "etc/machine-id").write_text("one\n")
    host = this_host(root)
    (root / "etc/machine-id").write_text("two\n")
    assert is_same_machine(host, host)
    assert not is_same_machine(host, this_host(root))
    assert "one" not in host.machine


def test_a_virtual_machine_is_never_surely_the_same(root: Path) -> None:
    """Virtual machines, and machines without an id, are never the same with certainty."""
    assert not is_same_machine(this_host(root), this_host(root))
    (root / "etc").mkdir(exist_ok=True)
    (root / "etc/machine-id").write_text("one\n")
    with (root / "proc/cpuinfo").open("a") as stream:
        stream.write("flags\t\t: fpu hypervisor sse\n")
    assert not is_same_machine(this_host(root), this_host(root))
