"""The health of the measured NVIDIA GPUs, from NVML: clock, temperature, and other processes.

NVML comes with the driver, its binding `pynvml` with an extra. A missing library, permission or
answer is no error: the health is then unknown.
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

# Values of NVML's C interface (nvml.h), which do not change. The other reasons for a lower clock
# are normal operation: idleness, a power cap, clocks that an administrator set.
_HARMFUL_REASONS = {
    0x08: "hardware slowdown",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "hardware power brake",
}
_SM_CLOCK = 1
_GPU_SENSOR = 0

# The newest name first: older drivers lack it, newer ones will drop the older.
_CLOCK = ("nvmlDeviceGetClockInfo",)
_TEMPERATURE = ("nvmlDeviceGetTemperatureV", "nvmlDeviceGetTemperature")
_REASONS = (
    "nvmlDeviceGetCurrentClocksEventReasons",
    "nvmlDeviceGetCurrentClocksThrottleReasons",
)
# Processes that draw a display are always there, so only those that compute are listed.
_COMPUTING = ("nvmlDeviceGetComputeRunningProcesses",)


@dataclass(frozen=True)
class _Card:
    """NVML's handles of a jax device.

    Attributes:
        used: What jax computes on: a whole card or a MIG instance. It lists the processes.
        board: The whole card. It has the clock and the temperature.
    """

    used: Any
    board: Any


class GpuWatch:
    """Watches the GPUs that jax uses; made by `open`.

    Args:
        nvml: The binding, initialised.
        cards: The cards to watch.
        opened: Shuts the binding down.
    """

    def __init__(self, nvml: Any, cards: Sequence[_Card], opened: ExitStack) -> None:
        self._nvml = nvml
        self._cards = cards
        self._opened = opened
        self._has_answer = False
        self._clocks_mhz: list[float] = []
        self._temperatures_c: list[float] = []
        self._throttled_rounds = 0
        self._reasons: set[str] = set()
        self._foreign_pids: set[int] = set()

    @classmethod
    def open(cls, devices: Sequence[jax.Device]) -> Self | None:
        """Find the cards of some jax devices.

        NVML numbers cards in the order of the PCI bus; CUDA numbers the visible cards, by default
        the fastest first. So a card is found by its UUID: jax has CUDA's number of a device
        (`local_hardware_id`), and the CUDA driver of this process knows that device's UUID,
        whatever CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER are.

        Returns:
            None when a device is no NVIDIA GPU, NVML is not available, or a card is not found.
        """
        # Any failure here means that a driver, a binding or a permission is missing.
        with suppress(Exception), ExitStack() as opened:
            nvml = import_module("pynvml")
            nvml.nvmlInit()
            opened.callback(nvml.nvmlShutdown)
            cards = [_card(nvml, _cuda_uuid(device)) for device in devices]
            return cls(nvml, cards, opened.pop_all()) if cards else None
        return None

    def look(self) -> None:
        """Record the state of the cards: once a round, outside timed windows."""
        boards = [card.board for card in self._cards]
        if clocks := self._answers(_CLOCK, boards, _SM_CLOCK):
            self._clocks_mhz.append(float(min(clocks)))
        if temperatures := self._answers(_TEMPERATURE, boards, _GPU_SENSOR):
            self._temperatures_c.append(float(max(temperatures)))
        reasons = _harmful(self._answers(_REASONS, boards))
        self._throttled_rounds += bool(reasons)
        self._reasons |= reasons
        for card in self._cards:
            listed = self._answer(_COMPUTING, card.used) or ()
            self._foreign_pids |= _foreign({process.pid for process in listed})

    def health(self) -> GpuHealth | None:
        """Return what was recorded so far; None when NVML gave no answer.

        Of several cards it has the lowest clock and the highest temperature. A quantity that no
        card reports has no entries.
        """
        if not self._has_answer:
            return None
        return GpuHealth(
            sm_clock_mhz=tuple(self._clocks_mhz),
            temperature_c=tuple(self._temperatures_c),
            throttled_rounds=self._throttled_rounds,
            throttle_reasons=tuple(sorted(self._reasons)),
            foreign_pids=tuple(sorted(self._foreign_pids)),
        )

    def close(self) -> None:
        """Shut NVML down."""
        with suppress(Exception):
            self._opened.close()

    def _answers(self, names: Sequence[str], handles: Sequence[Any], *arguments: int) -> list[Any]:
        """Query each handle, and omit those without an answer."""
        answers = (self._answer(names, handle, *arguments) for handle in handles)
        return [answer for answer in answers if answer is not None]

    def _answer(self, names: Sequence[str], handle: Any, *arguments: int) -> Any:
        for name in names:
            with suppress(Exception):
                answer = getattr(self._nvml, name)(handle, *arguments)
                self._has_answer = True
                return answer
        return None


def _card(nvml: Any, uuid: UUID) -> _Card:
    try:
        whole = nvml.nvmlDeviceGetHandleByUUID(f"GPU-{uuid}")
    except nvml.NVMLError:
        instance = nvml.nvmlDeviceGetHandleByUUID(f"MIG-{uuid}")
        return _Card(instance, nvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(instance))
    return _Card(whole, whole)


def _cuda_uuid(device: jax.Device) -> UUID:
    """Ask the CUDA driver for the UUID of a device, or of the MIG instance that it is.

    Raises:
        OSError: There is no CUDA driver, or it reports an error.
    """
    if device.platform != "gpu":
        raise OSError(f"{device} is no GPU")
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


def _harmful(masks: Sequence[int]) -> set[str]:
    return {why for bit, why in _HARMFUL_REASONS.items() if any(mask & bit for mask in masks)}


def _foreign(listed: set[int]) -> set[int]:
    """Return the processes on a card that do not belong to this one, as far as it can tell.

    This process uses the card too. A list without it comes from another PID namespace, outside
    this container, so its numbers say nothing here. A process that has ended since is not
    returned either: it may have been a child.
    """
    with suppress(psutil.Error):
        me = psutil.Process()
        if me.pid in listed:
            relatives = (me, *me.parents(), *me.children(recursive=True))
            family = {process.pid for process in relatives}
            return {pid for pid in listed - family if psutil.pid_exists(pid)}
    return set()
