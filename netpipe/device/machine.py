"""The machine's equipment and its sources of disturbance, for `netpipe doctor`."""

import os
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from math import ceil, inf
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypedDict

from netpipe.device.detection import DeviceFacts, HostFacts, StoredBaselines
from netpipe.device.host import cgroup_folders, cpu_quotas, memory_limits, read_text
from netpipe.results.fields import Must

_SMI: Final = (
    "nvidia-smi", "--format=csv,noheader,nounits",
    "--query-gpu=name,driver_version,memory.used,utilization.gpu",
)  # fmt: skip
_MIB: Final = 2**20

# A worker needs pipes and two files per finished array: enough for 17 batches of 8 arrays.
_FILES_PER_WORKER: Final = 8 + 2 * 8 * 17


def count_throttled_periods(root: Path = Path("/")) -> int:
    """Return how often the CPU quotas of this process's cgroups have stopped it."""
    stats = "\n".join(read_text(folder / "cpu.stat") for folder in cgroup_folders(root, "cpu"))
    return sum(map(int, re.findall(r"^nr_throttled (\d+)$", stats, re.MULTILINE)))


class ComparedBaselines(StoredBaselines):
    """The baselines of a device."""

    compared: list[str]  #: The files that runs here are compared with.


class Machine(TypedDict):
    """The equipment of a machine. Null means not known, or not limited."""

    turbo: bool  #: Whether the clock may exceed its base frequency.
    governors: list[str]  #: The CPU frequency governors.
    #: The GPUs that nvidia-smi lists before jax starts.
    gpus: list[
        Annotated[dict[str, Any], Must(required=["name", "driver", "used_bytes", "busy_fraction"])]
    ]


class Doctor(TypedDict):
    """The document of `netpipe doctor --json`."""

    schema: Literal["netpipe.doctor/1"]
    device: DeviceFacts | None
    host: HostFacts
    versions: Mapping[str, str]
    baseline: ComparedBaselines | None
    machine: Annotated[
        Machine,
        Must(
            required=[
                *("affinity_cpus", "quota_cores", "memory_bytes", "memory_limit_bytes"),
                *("swap_used_bytes", "shm_bytes", "shm_free_bytes", "open_files_limit"),
                *("governors", "turbo", "perf_event_paranoid", "gpus"),
            ],
            patternProperties={"_(bytes|cpus|cores|limit|paranoid)$": {"type": ["number", "null"]}},
        ),
    ]
    disturbances: list[Annotated[dict[str, str], Must(required=["what", "remedy"])]]


def describe_machine(root: Path = Path("/"), smi: Sequence[str] = _SMI) -> dict[str, Any]:
    """Return the `machine` part of `netpipe.doctor/1`; None means not known, or not limited."""
    total, *limits = memory_limits(root)
    kib = dict(re.findall(r"(?m)^(Swap\w+):\s+(\d+) kB$", read_text(root / "proc/meminfo")))
    cpus, shm = root / "sys/devices/system/cpu", root / "dev/shm"
    switches = (cpus / "cpufreq/boost", cpus / "intel_pstate/no_turbo")
    paranoid = read_text(root / "proc/sys/kernel/perf_event_paranoid")
    files = re.search(r"(?m)^Max open files +(\d+)", read_text(root / "proc/self/limits"))
    space = os.statvfs(shm) if shm.is_dir() else None
    return {
        "affinity_cpus": len(os.sched_getaffinity(0)),
        "quota_cores": min(cpu_quotas(root), default=None),
        "memory_bytes": total,
        "memory_limit_bytes": min((limit for limit in limits if limit < total), default=None),
        "swap_used_bytes": 1024 * (int(kib.get("SwapTotal", 0)) - int(kib.get("SwapFree", 0))),
        "shm_bytes": space and space.f_blocks * space.f_frsize,
        "shm_free_bytes": space and space.f_bavail * space.f_frsize,
        "open_files_limit": int(files[1]) if files else None,
        "governors": sorted(set(map(read_text, cpus.glob("cpu*/cpufreq/scaling_governor")))),
        "turbo": [read_text(switch) for switch in switches] in (["1", ""], ["", "0"]),
        "perf_event_paranoid": int(paranoid) if paranoid else None,
        "gpus": list(_query_gpus(smi)),
    }


def _query_gpus(smi: Sequence[str]) -> Iterator[dict[str, Any]]:
    try:
        answer = subprocess.run(smi, capture_output=True, check=True, text=True, timeout=30).stdout
    except (OSError, subprocess.SubprocessError):
        return
    for name, driver, *use in re.findall(r"^(.+), (.+), (.+), (.+)$", answer, re.MULTILINE):
        # Some cards, such as those with MIG instances, answer "[N/A]".
        mib, percent = (int(number) if number.isdigit() else None for number in use)
        used_bytes, busy = mib and mib * _MIB, percent and percent / 100
        yield {"name": name, "driver": driver, "used_bytes": used_bytes, "busy_fraction": busy}


def find_disturbances(machine: dict[str, Any], used: Any, throttled: int) -> list[tuple[str, str]]:
    """Return disturbances and their remedies.

    Args:
        machine: The description of the machine.
        used: `psutil.cpu_times_percent` while this process was idle.
        throttled: How often the CPU quota stopped this process meanwhile.
    """
    busy = sum((used.user, used.nice, used.system, used.irq, used.softirq)) / 100
    stolen = used.steal / 100
    cpus, quota = machine["affinity_cpus"], machine["quota_cores"] or machine["affinity_cpus"]
    frequent = ", ".join(name for name in machine["governors"] if name != "performance")
    swapped_mib, free_mib = (
        (machine[f"{name}_bytes"] or 0) // _MIB for name in ("swap_used", "shm_free")
    )
    files, needed = machine["open_files_limit"] or inf, ceil(min(cpus, quota)) * _FILES_PER_WORKER
    side_by_side = "or time two versions side by side: --netpipe-against"
    found = [
        (busy > 0.1, f"other programs use {busy:.0%} of the CPUs", f"end them, {side_by_side}"),
        (stolen > 0.01, f"the hypervisor takes {stolen:.1%} of the CPUs",
         f"use dedicated cores, {side_by_side}"),
        (throttled > 0, f"the CPU quota stopped this cgroup {throttled} times just now",
         "raise the quota, or start fewer workers and threads"),
        (quota < cpus, f"programs see {cpus} CPUs but may use {quota:g}",
         "set num_workers to at most that number, not to os.cpu_count()"),
        (min(cpus, quota) < 2, "the step and the workers share a core", "use two cores or more"),
        (bool(frequent), f"the CPU frequency governor is {frequent}",
         "cpupower frequency-set --governor performance"),
        (machine["turbo"], "turbo is on: the clock depends on heat and on busy neighbours",
         "write 1 to intel_pstate/no_turbo or 0 to cpufreq/boost in /sys/devices/system/cpu"),
        (swapped_mib >= 64, f"{swapped_mib} MiB are swapped out", "free memory, then swapoff -a"),
        (free_mib < 1024, f"/dev/shm, where workers put batches, has {free_mib} MiB free",
         "docker run --shm-size=2g; in Kubernetes, an emptyDir of medium Memory"),
        (files < needed, f"{files} files may be open; a worker on each core may need {needed}",
         f"ulimit -n {needed}, or fewer workers, smaller buffers, or fewer arrays in a batch"),
        # The driver alone holds several hundred MiB of some cards.
        *(((gpu["used_bytes"] or 0) > 600 * _MIB or (gpu["busy_fraction"] or 0) > 0.05,
           f"another process uses the {gpu['name']}",
           "end the processes in nvidia-smi, or choose another card by CUDA_VISIBLE_DEVICES")
          for gpu in machine["gpus"]),
    ]  # fmt: skip
    return [(what, remedy) for holds, what, remedy in found if holds]
