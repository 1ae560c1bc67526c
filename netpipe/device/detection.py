"""Which device is here, whether it is the wanted one, and what `netpipe devices` says about it."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from platform import python_version
from typing import Final

from netpipe.device.accelerators import TOX_DEVICES, device_key, matches, peak_flops
from netpipe.device.host import host_class, this_host
from netpipe.errors import HarnessError, MisuseError
from netpipe.results.measurement import Device, Host

__all__ = [
    "Device",
    "DevicesReport",
    "Host",
    "NoDeviceError",
    "WrongDeviceError",
    "device_key",
    "devices_report",
    "find_device",
    "host_class",
    "installed_versions",
    "local_device",
    "matches",
    "peak_flops",
    "require_device",
    "this_host",
]

# What the driver tells on Linux; it takes neither NVML nor CUDA to read.
_DRIVER: Final = Path("/proc/driver/nvidia")
_NARROWING: Final = ("JAX_PLATFORMS", "CUDA_VISIBLE_DEVICES")

_PACKAGES: Final = ("netpipe", "grain", "jax", "jaxlib", "numpy", "pytest-benchmark")

# -P: a file of the current folder must not take the place of a module of the same name.
_ASK: Final = (sys.executable, "-P", "-m", "netpipe.device.detection")


class NoDeviceError(HarnessError):
    """jax could not be asked which device it has."""


class WrongDeviceError(MisuseError):
    """The device here is not the one this run is for."""


def local_device(used: int | None = None) -> Device:
    """Describe the device that jax uses in this process, which initialises its backend.

    Args:
        used: How many devices a step ran on; by default all of the default one's kind that jax
            may use. CUDA_VISIBLE_DEVICES narrows them.
    """
    import jax

    devices = jax.local_devices()
    kind, platform = devices[0].device_kind, devices[0].platform
    return _device(platform, kind, used or sum(device.device_kind == kind for device in devices))


def find_device(time_limit_s: float = 180.0, command: Sequence[str] = _ASK) -> Device:
    """Describe the device without initialising jax here: a child process looks and ends.

    Args:
        time_limit_s: The child is ended after so many seconds.
        command: Prints `{"platform", "kind", "count"}` as the last line of its standard output.

    Raises:
        NoDeviceError: The child failed, took too long, or said something else.
    """
    # Without this, looking takes three quarters of the accelerator's memory for a moment, which
    # fails when somebody else's process holds it.
    environment = {**os.environ, "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    try:
        child = subprocess.run(
            command,
            capture_output=True,
            check=True,
            env=environment,
            stdin=subprocess.DEVNULL,
            text=True,
            timeout=time_limit_s,
        )
    except subprocess.TimeoutExpired as error:
        raise _no_device(f"no answer in {time_limit_s:g} s") from error
    except subprocess.CalledProcessError as error:
        raise _no_device(_last_line(error.stderr) or f"exit code {error.returncode}") from error
    answer = _last_line(child.stdout)
    try:
        seen = json.loads(answer)
        return _device(str(seen["platform"]), str(seen["kind"]), int(seen["count"]))
    except (ValueError, TypeError, KeyError) as error:
        raise _no_device(f"the answer {answer!r}") from error


def require_device(device: Device, wanted: str) -> None:
    """Refuse to go on when the device is not the wanted one.

    Args:
        device: What is here.
        wanted: A device key, or a family such as "a100".

    Raises:
        WrongDeviceError: In one sentence: what is wanted, what is here, what to run instead.
    """
    if matches(device.key, wanted):
        return
    family = next((name for name in TOX_DEVICES if matches(device.key, name)), None)
    instead = f"tox -e {family}" if family else "pytest perf_tests --benchmark-compare"
    raise WrongDeviceError(
        f"this run wants device {wanted}, but the device here is {device.key} ({device.kind}): "
        f"{_unseen(device) or f'start it on a machine with {wanted}'}, "
        f"or run `{instead}` on this one"
    )


def _unseen(device: Device) -> str:
    """Say what the NVIDIA driver lists and jax does not use; "" where that is nothing."""
    gpus = _listed_gpus() if device.platform == "cpu" else ()
    if not gpus:
        return ""
    settings = (f"{name} {os.environ.get(name, 'not set')}" for name in _NARROWING)
    return (
        f"jax does not use the {' and '.join(dict.fromkeys(gpus))} that is in this machine, with "
        f"{', '.join(settings)}: install jax[cuda12] or jax[cuda13] and leave these unset"
    )


def _listed_gpus() -> tuple[str, ...]:
    texts = (path.read_text(encoding="utf-8") for path in _DRIVER.glob("gpus/*/information"))
    lines = (line.partition(":") for text in texts for line in text.splitlines())
    return tuple(value.strip() for name, _, value in lines if name == "Model")


def installed_versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that a measurement depends on."""
    return {"python": python_version(), **{name: version(name) for name in _PACKAGES}}


def measured_versions() -> dict[str, str]:
    """Return the versions that a measurement depends on; pytest-benchmark only replays it."""
    versions = installed_versions()
    del versions["pytest-benchmark"]
    return versions


@dataclass(frozen=True)
class DevicesReport:
    """What `netpipe devices` says.

    Attributes:
        device: The device that jax uses.
        host: The machine around it.
        versions: Of Python and of the packages that a measurement depends on.
        baseline_folder: Where baselines of this device belong.
        baseline_count: How many are there.
    """

    device: Device
    host: Host
    versions: Mapping[str, str]
    baseline_folder: Path
    baseline_count: int

    def to_document(self) -> dict[str, object]:
        """Give the document described by `netpipe/schemas/devices.1.json`."""
        return {
            "schema": "netpipe.devices/1",
            "device": {**asdict(self.device), "peak_flops": peak_flops(self.device.kind)},
            "host": {**asdict(self.host), "host_class": host_class(self.host)},
            "versions": dict(self.versions),
            "baseline": {"folder": str(self.baseline_folder), "count": self.baseline_count},
        }


def devices_report(device: Device, host: Host, baselines: Path) -> DevicesReport:
    """Gather what `netpipe devices` says.

    Args:
        device: What `find_device` found.
        host: What `this_host` found.
        baselines: The folder that holds one folder of baselines for each device key.
    """
    folder = baselines / device.key
    return DevicesReport(
        device=device,
        host=host,
        versions=installed_versions(),
        baseline_folder=folder,
        baseline_count=len(list(folder.glob("*.json"))),
    )


def _device(platform: str, kind: str, count: int) -> Device:
    if platform != "cpu":
        return Device(device_key(platform, kind, count), kind, platform, count)
    host = this_host()
    return Device(device_key(platform, host.cpu, host.cores), kind, platform, count)


def _no_device(reason: str) -> NoDeviceError:
    platforms = os.environ.get("JAX_PLATFORMS", "not set")
    return NoDeviceError(
        f"jax must say which device it has; found {reason} with JAX_PLATFORMS {platforms}. "
        f"JAX_PLATFORMS=cpu leaves accelerators aside"
    )


def _last_line(text: str) -> str:
    return text.strip().rpartition("\n")[2]


def _main() -> None:
    device = local_device()
    seen = {"platform": device.platform, "kind": device.kind, "count": device.count}
    sys.stdout.write(json.dumps(seen) + "\n")


if __name__ == "__main__":
    _main()
