"""The health of the measured NVIDIA GPUs, from NVML: clock, temperature, and other processes.

NVML comes with the driver; an extra installs its binding `pynvml`. If the library, a permission or
an answer is missing, the health is unknown, which is not an error.
"""

import ctypes
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Self
from uuid import UUID

import jax
import psutil

from netpipe.results.measurement import GpuHealth

# Values of NVML's C interface (nvml.h), which are stable. The other reasons for a lower clock are
# normal operation: idleness, a power cap, or clocks that an administrator set.
_HARMFUL = {
    0x08: "hardware slowdown",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "hardware power brake",
}
_SM_CLOCK = 1
_GPU_SENSOR = 0
# The newest name comes first: older drivers lack it, and future drivers will drop the old one.
_TEMPERATURE = ("nvmlDeviceGetTemperatureV", "nvmlDeviceGetTemperature")
_REASONS = (
    "nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons",
)  # fmt: skip
_NOT_LOOKED = GpuHealth((), (), 0, (), ())


@dataclass
class GpuWatch:
    """Watches the GPUs that jax uses; made by `open`."""

    _nvml: Any
    _used: Sequence[Any]
    _boards: Sequence[Any]
    _opened: ExitStack
    _has_answer: bool = False
    _health: GpuHealth = _NOT_LOOKED

    @classmethod
    def open(cls, devices: Sequence[jax.Device]) -> Self | None:
        """Return a watch on the cards of some jax devices.

        NVML numbers cards in the order of the PCI bus. CUDA numbers only the visible cards, by
        default the fastest first. A card is therefore found by its UUID: jax has CUDA's number of a
        device (`local_hardware_id`), and the CUDA driver of this process maps it to the UUID,
        regardless of CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER.

        Returns None if a device is not an NVIDIA GPU, or if NVML or a card is not found.
        """
        # Any failure here means that a driver, a binding or a permission is missing.
        with suppress(Exception), ExitStack() as opened:
            nvml = import_module("pynvml")
            nvml.nvmlInit()
            opened.callback(nvml.nvmlShutdown)
            cards = [_find_card(nvml, _cuda_uuid(device)) for device in devices]
            if cards:
                used, boards = zip(*cards, strict=True)
                return cls(nvml, used, boards, opened.pop_all())
        return None

    def look(self) -> None:
        """Record the state of the cards; called once per round, outside timed windows."""
        seen = self._health
        clocks = self._answers(self._boards, ["nvmlDeviceGetClockInfo"], _SM_CLOCK)
        temperatures = self._answers(self._boards, _TEMPERATURE, _GPU_SENSOR)
        masks = self._answers(self._boards, _REASONS)
        reasons = {why for bit, why in _HARMFUL.items() if any(mask & bit for mask in masks)}
        # Processes that draw on a display are always present, so only compute processes are listed.
        listed = self._answers(self._used, ["nvmlDeviceGetComputeRunningProcesses"])
        pids = (_find_foreign({process.pid for process in each}) for each in listed)
        self._health = GpuHealth(
            sm_clock_mhz=(*seen.sm_clock_mhz, *map(float, sorted(clocks)[:1])),
            temperature_c=(*seen.temperature_c, *map(float, sorted(temperatures)[-1:])),
            throttled_rounds=seen.throttled_rounds + bool(reasons),
            throttle_reasons=tuple(sorted(reasons.union(seen.throttle_reasons))),
            foreign_pids=tuple(sorted(set(seen.foreign_pids).union(*pids))),
        )

    def health(self) -> GpuHealth | None:
        """Return the health recorded so far; None if NVML gave no answer.

        It holds the lowest clock and the highest temperature of all cards in each round. A quantity
        that no card reports has no entries.
        """
        return self._health if self._has_answer else None

    def close(self) -> None:
        """Shut NVML down."""
        with suppress(Exception):
            self._opened.close()

    def _answers(self, handles: Sequence[Any], names: Sequence[str], *arguments: int) -> list[Any]:
        """Return each handle's answer from the first function that gives one; omit the others."""
        answers = []
        for handle in handles:
            for name in names:
                with suppress(Exception):
                    answers.append(getattr(self._nvml, name)(handle, *arguments))
                    break
        self._has_answer |= bool(answers)
        return answers


def _find_card(nvml: Any, uuid: UUID) -> tuple[Any, Any]:
    """Return the handle of jax's device, which may be a MIG instance, and the card's handle.

    The first handle lists the processes; the second has the clock and the temperature.
    """
    try:
        card = nvml.nvmlDeviceGetHandleByUUID(f"GPU-{uuid}")
    except nvml.NVMLError:
        instance = nvml.nvmlDeviceGetHandleByUUID(f"MIG-{uuid}")
        return instance, nvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(instance)
    return card, card


def _cuda_uuid(device: jax.Device) -> UUID:
    """Return CUDA's UUID of a device or a MIG instance; raise an OSError if there is none."""
    if device.platform != "gpu":
        raise OSError(f"{device} is not a GPU")
    cuda = ctypes.CDLL("libcuda.so.1")
    number, uuid = ctypes.c_int(), (ctypes.c_ubyte * 16)()
    codes = (
        cuda.cuInit(0),
        cuda.cuDeviceGet(ctypes.byref(number), device.local_hardware_id),
        cuda.cuDeviceGetUuid_v2(ctypes.byref(uuid), number),
    )
    if any(codes):
        raise OSError(f"the CUDA driver answers {codes} about {device}")
    return UUID(bytes=bytes(uuid))


def _find_foreign(listed: set[int]) -> set[int]:
    """Return the processes on a card that are not known to be related to this process.

    This process uses the card too. A list without its PID comes from another PID namespace, outside
    this container, so the PIDs mean nothing here. Processes that have ended are not returned,
    because they may have been children.
    """
    with suppress(psutil.Error):
        me = psutil.Process()
        if me.pid in listed:
            relatives = (me, *me.parents(), *me.children(recursive=True))
            family = {process.pid for process in relatives}
            return {pid for pid in listed - family if psutil.pid_exists(pid)}
    return set()
