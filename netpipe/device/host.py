"""The host of the accelerator, which determines a loader's speed."""

import hashlib
import os
import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from platform import machine
from typing import Final

from netpipe.errors import InputError
from netpipe.results.measurement import Host

_CONTAINER_MARKS: Final = (
    ".dockerenv", "run/.containerenv", "run/systemd/container", "run/secrets/kubernetes.io",
    "var/run/secrets/kubernetes.io",
)  # fmt: skip
_CONTAINER_CGROUPS: Final = ("docker", "kubepods", "containerd", "libpod", "lxc")
_MEMORY_TOLERANCE_FRACTION: Final = 0.10


def host_class(host: Host) -> str:
    """Return a host's class as text, memory in whole GiB; `host_difference` compares classes."""
    where = "container" if host.container else "no container"
    cpu = f"{host.cpu} ({host.cpu_model})" if host.cpu_model else host.cpu
    return f"{cpu}, {host.cores} cores, {round(host.memory_bytes / 2**30)} GiB, {where}"


def host_difference(now: Host, then: Host) -> str:
    """Return how two hosts differ in class; "" for hosts of the same class.

    Absolute times are compared only between hosts of one class. Memory may differ by a tenth,
    because firmware and kernel reserve varying amounts.
    """
    tolerance_bytes = _MEMORY_TOLERANCE_FRACTION * max(now.memory_bytes, then.memory_bytes)
    if now.cpu != then.cpu:
        return f"{now.cpu} now, {then.cpu} then"
    if now.cpu_model != then.cpu_model:
        return f"CPU {now.cpu_model or 'unknown'} now, {then.cpu_model or 'unknown'} then"
    if now.cores != then.cores:
        return f"{now.cores} cores now, {then.cores} then"
    if abs(now.memory_bytes - then.memory_bytes) > tolerance_bytes:
        return f"{now.memory_bytes / 2**30:.1f} GiB now, {then.memory_bytes / 2**30:.1f} GiB then"
    if now.container != then.container:
        return "in a container now, not then" if now.container else "in a container then, not now"
    return ""


def this_host(root: Path = Path("/")) -> Host:
    """Return a description of this process's host, from the kernel's files under `root`.

    The cores are those that the process may use: the number in its CPU affinity, or the quota of
    its cgroup if that is lower, rounded down but at least 1. The memory is the machine's, or the
    cgroup's limit if that is lower.

    Raises:
        InputError: `proc/meminfo` does not state the size of the memory.
    """
    text = read_text(root / "proc/cpuinfo")
    cpuinfo = dict(re.findall(r"^([^\t:]+?)[\t ]*: (.*)$", text, re.MULTILINE))
    numbers = [cpuinfo.get(name) for name in ("cpu family", "model", "stepping")]
    # ARM processors have no model name.
    arm = [cpuinfo[name] for name in ("CPU implementer", "CPU part") if name in cpuinfo]
    return Host(
        cpu=cpuinfo.get("model name") or " ".join([machine(), *arm]),
        cpu_model="" if None in numbers else "family {}, model {}, stepping {}".format(*numbers),
        cores=max(1, int(min([len(os.sched_getaffinity(0)), *cpu_quotas(root)]))),
        memory_bytes=min(memory_limits(root)),
        container=_in_container(root),
        machine=_machine(root),
    )


def is_same_machine(host: Host, other: Host) -> bool:
    """Return whether two hosts are certainly the same machine, not two machines of one class."""
    return bool(host.machine) and host.machine == other.machine


def _machine(root: Path) -> str:
    """Return a digest that identifies a machine; "" if it cannot be identified.

    Virtual machines and containers get no digest: their hardware or neighbours may change.
    """
    if " hypervisor" in read_text(root / "proc/cpuinfo") or _in_container(root):
        return ""
    machine_id = read_text(root / "etc/machine-id")
    return hashlib.sha256(machine_id.encode()).hexdigest()[:16] if machine_id else ""


def cpu_quotas(root: Path) -> Iterator[float]:
    """Yield the quotas of this process's cgroups, in cores."""
    for folder in cgroup_folders(root, "cpu"):
        quota, period = (read_text(folder / f"cpu.cfs_{name}_us") for name in ("quota", "period"))
        match (read_text(folder / "cpu.max") or f"{quota} {period}").split():
            # "max" and -1 stand for no quota.
            case [quota, period] if quota.isdigit():
                yield int(quota) / int(period)


def memory_limits(root: Path) -> Iterator[int]:
    """Yield the memory of the machine and the limits of this process's cgroups, in bytes."""
    meminfo = root / "proc/meminfo"
    total = re.search(r"^MemTotal:\s+(\d+) kB$", read_text(meminfo), re.MULTILINE)
    if total is None:
        raise InputError(meminfo, "MemTotal", "be given in kB", "no such line")
    yield int(total[1]) * 1024
    for folder in cgroup_folders(root, "memory"):
        limit = read_text(folder / "memory.max") or read_text(folder / "memory.limit_in_bytes")
        if limit.isdigit():
            yield int(limit)


def cgroup_folders(root: Path, controller: str) -> Iterator[Path]:
    """Yield the folders of this process's cgroup and all its ancestors, which may limit it.

    A container without a cgroup namespace sees its path on the host, but its limits are at the top
    of the mount, so every ancestor is tried. cgroups(7) describes the lines of `proc/self/cgroup`,
    which name no controllers in version 2.
    """
    for line in read_text(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        mount = root / "sys/fs/cgroup" / (controller if controllers else "")
        inner = PurePosixPath(path.lstrip("/"))
        for folder in (inner, *inner.parents):
            yield mount / folder


def _in_container(root: Path) -> bool:
    cgroup_of_init = read_text(root / "proc/1/cgroup")
    return any((root / mark).exists() for mark in _CONTAINER_MARKS) or any(
        name in cgroup_of_init for name in _CONTAINER_CGROUPS
    )


def read_text(path: Path) -> str:
    """Return the text of a kernel file; "" if it is absent or may not be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
