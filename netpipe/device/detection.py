"""Find this machine's device, require a specific one, and report it for `netpipe devices`."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from platform import python_version
from typing import Any, Final, Literal, TypedDict

from netpipe.device.accelerators import device_key, matches, peak_flops
from netpipe.device.host import host_class, this_host
from netpipe.errors import HarnessError, MisuseError
from netpipe.results.fields import Count, PositiveAmount
from netpipe.results.measurement import Device, Host, HostClass

# The Linux driver provides these files; reading them requires neither NVML nor CUDA.
_DRIVER: Final = Path("/proc/driver/nvidia")
_RESTRICTING_VARIABLES: Final = ("JAX_PLATFORMS", "CUDA_VISIBLE_DEVICES")

_PACKAGES: Final = ("netpipe", "grain", "jax", "jaxlib", "numpy", "pyarrow", "array-record")

# -P: a file in the current folder must not shadow a module of the same name.
_COMMAND: Final = (sys.executable, "-P", "-m", "netpipe.device.detection")


def local_device(used: Sequence[Any] = ()) -> Device:
    """Describe the devices in use, which have a `platform` and a `device_kind`.

    By default these are all local devices of the first device's kind, except those hidden by
    CUDA_VISIBLE_DEVICES; finding them initialises jax's backend.
    """
    if not used:
        import jax

        devices = jax.local_devices()
        used = [each for each in devices if each.device_kind == devices[0].device_kind]
    return _make_device(used[0].platform, used[0].device_kind, len(used))


def find_device(time_limit_s: float = 180.0, command: Sequence[str] = _COMMAND) -> Device:
    """Describe the device from a child process, so that jax is not initialised here.

    The command prints `{"platform", "kind", "count"}` as the last line of its standard output.

    Raises:
        HarnessError: The child failed, took too long, or printed something else.
    """
    # By default jax preallocates three quarters of the accelerator's memory, which fails if another
    # process uses it.
    environment = {**os.environ, "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    try:
        child = subprocess.run(
            command,
            capture_output=True,
            check=True,
            env=environment,
            stdin=subprocess.DEVNULL,
            text=True,
            errors="replace",
            timeout=time_limit_s,
        )
    except subprocess.TimeoutExpired as error:
        raise _make_error(f"no answer in {time_limit_s:g} s") from error
    except subprocess.CalledProcessError as error:
        raise _make_error(_last_line(error.stderr) or f"exit code {error.returncode}") from error
    answer = _last_line(child.stdout)
    try:
        seen = json.loads(answer)
        return _make_device(str(seen["platform"]), str(seen["kind"]), int(seen["count"]))
    except (ValueError, TypeError, KeyError) as error:
        raise _make_error(f"the answer {answer!r}") from error


def require_device(device: Device, wanted: str) -> None:
    """Raise a MisuseError unless a device has the wanted key or family (`a100`)."""
    if not matches(device.key, wanted):
        raise MisuseError(
            f"this run wants device {wanted}, but the device here is {device.key} ({device.kind}): "
            f"{_explain_unused_gpus(device) or f'start it on a machine with {wanted}'}, "
            "or do not ask for a device (--netpipe-device, netpipe_device)"
        )


def _explain_unused_gpus(device: Device) -> str:
    """Explain which GPUs the NVIDIA driver lists but jax does not use; "" if there are none."""
    files = _DRIVER.glob("gpus/*/information") if device.platform == "cpu" else ()
    lines = "\n".join(file.read_text(encoding="utf-8") for file in files)
    gpus = re.findall(r"^Model[ \t]*:[ \t]*(.*\S)", lines, re.MULTILINE)
    if not gpus:
        return ""
    settings = (f"{name} {os.environ.get(name, 'not set')}" for name in _RESTRICTING_VARIABLES)
    return (
        f"jax does not use the {' and '.join(dict.fromkeys(gpus))} in this machine, with "
        f"{', '.join(settings)}: install jax[cuda12] or jax[cuda13] and leave these unset"
    )


def installed_versions() -> dict[str, str]:
    """Return the versions of Python and of the relevant installed packages, by name."""
    versions = {"python": python_version()}
    for name in _PACKAGES:
        with suppress(PackageNotFoundError):
            versions[name] = version(name)
    return versions


@dataclass(frozen=True, kw_only=True)
class DeviceFacts(Device):
    """The device that jax uses."""

    #: Dense peak of one device in FLOP/s, in bfloat16, or in float16 if it lacks bfloat16. Null:
    #: not known.
    peak_flops: PositiveAmount | None


@dataclass(frozen=True, kw_only=True)
class HostFacts(HostClass):
    """The host of the device."""

    host_class: str  #: Absolute times are compared only between hosts of one class.


class StoredBaselines(TypedDict):
    """The baselines of a device."""

    folder: str  #: The folder for this device's baselines.
    count: Count  #: The number of baselines in it.


class Devices(TypedDict):
    """The document of `netpipe devices --json`."""

    schema: Literal["netpipe.devices/1"]
    device: DeviceFacts
    host: HostFacts
    versions: Mapping[str, str]  #: The versions of Python and of packages that affect measurements.
    baseline: StoredBaselines


def devices_document(device: Device | None, host: Host, baselines: Path) -> dict[str, Any]:
    """Return the `netpipe.devices/1` document; `baselines` has one folder per device key.

    If no device was found, `device` and `baseline` are null, as in `netpipe.doctor/1`.
    """
    folder = device and baselines / device.key
    return {
        "schema": "netpipe.devices/1",
        "device": device and {**asdict(device), "peak_flops": peak_flops(device.kind)},
        "host": {**asdict(host), "host_class": host_class(host)},
        "versions": installed_versions(),
        "baseline": folder and {"folder": str(folder), "count": len(list(folder.glob("*.json")))},
    }


def _make_device(platform: str, kind: str, count: int) -> Device:
    """Return a device with its key; a CPU's key contains the processor's name and the cores."""
    if platform != "cpu":
        return Device(device_key(platform, kind, count), kind, platform, count)
    host = this_host()
    return Device(device_key(platform, host.cpu, host.cores), kind, platform, count)


def _make_error(reason: str) -> HarnessError:
    platforms = os.environ.get("JAX_PLATFORMS", "not set")
    return HarnessError(
        f"jax must say which device it has; found {reason} with JAX_PLATFORMS {platforms}. "
        f"JAX_PLATFORMS=cpu ignores accelerators"
    )


def _last_line(text: str) -> str:
    return text.strip().rpartition("\n")[2]


if __name__ == "__main__":
    sys.stdout.write(json.dumps(asdict(local_device())) + "\n")
