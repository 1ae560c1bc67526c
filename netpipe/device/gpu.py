"""The NVIDIA GPU that is measured, asked through NVML: its clock, its heat, and who else is on it.

NVML comes with the driver, its binding `pynvml` with an extra. Without one of them, without the
permission or the answer, there is nothing to say, which is no error.
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
# are how a card works: idleness, a power cap, clocks that somebody set.
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
_COMPUTING = ("nvmlDeviceGetComputeRunningProcesses",)  # a display's own are always there


@dataclass(frozen=True)
class _Card:
    """What NVML knows a jax device by.

    Attributes:
        used: What jax computes on: a whole card, or a MIG instance of one. It has the processes.
        board: The card. It has the clock and the heat.
    """

    used: Any
    board: Any


class GpuWatch:
    """Watches the GPUs that jax uses; made by `open`.

    Args:
        nvml: The binding, initialised.
        cards: What to watch.
        opened: Shuts the binding down.
    """

    def __init__(self, nvml: Any, cards: Sequence[_Card], opened: ExitStack) -> None:
        self._nvml = nvml
        self._cards = cards
        self._opened = opened
        self._heard = False
        self._clocks_mhz: list[float] = []
        self._temperatures_c: list[float] = []
        self._throttled_rounds = 0
        self._reasons: set[str] = set()
        self._foreign_pids: set[int] = set()

    @classmethod
    def open(cls, devices: Sequence[jax.Device]) -> Self | None:
        """Find the cards of some jax devices.

        NVML counts cards in the order of the PCI bus; CUDA counts the visible ones, by default
        the fastest first. So a card is found by its UUID: jax names a device by CUDA's number
        (`local_hardware_id`), and the CUDA driver of this process says which UUID has that
        number, whatever CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER are.

        Returns:
            None when a device is no NVIDIA GPU, NVML cannot be had, or a card is not found.
        """
        # Whatever fails on the way, there is a driver, a binding or a permission missing.
        with suppress(Exception), ExitStack() as opened:
            nvml = import_module("pynvml")
            nvml.nvmlInit()
            opened.callback(nvml.nvmlShutdown)
            cards = [_card(nvml, _cuda_uuid(device)) for device in devices]
            return cls(nvml, cards, opened.pop_all()) if cards else None
        return None

    def look(self) -> None:
        """Note how the cards fare; once a round, outside timed windows, while they are warm."""
        boards = [card.board for card in self._cards]
        if clocks := self._answers(_CLOCK, boards, _SM_CLOCK):
            self._clocks_mhz.append(float(min(clocks)))
        if temperatures := self._answers(_TEMPERATURE, boards, _GPU_SENSOR):
            self._temperatures_c.append(float(max(temperatures)))
        reasons = _harmful(self._answers(_REASONS, boards))
        self._throttled_rounds += bool(reasons)
        self._reasons |= reasons
        for card in self._cards:
            self._foreign_pids |= _foreign(self._listed_pids(card))

    def health(self) -> GpuHealth | None:
        """Return what was seen so far, or None when no question was answered.

        Of several cards it is the lowest clock and the highest temperature. A clock or a
        temperature that a card does not tell has no entries.
        """
        if not self._heard:
            return None
        return GpuHealth(
            sm_clock_mhz=tuple(self._clocks_mhz),
            temperature_c=tuple(self._temperatures_c),
            throttled_rounds=self._throttled_rounds,
            throttle_reasons=tuple(sorted(self._reasons)),
            foreign_pids=tuple(sorted(self._foreign_pids)),
        )

    def close(self) -> None:
        """Leave NVML."""
        with suppress(Exception):
            self._opened.close()

    def _answers(self, names: Sequence[str], handles: Sequence[Any], *arguments: int) -> list[Any]:
        """Ask about each handle; what cannot be answered is left out."""
        answers = (self._answer(names, handle, *arguments) for handle in handles)
        return [answer for answer in answers if answer is not None]

    def _answer(self, names: Sequence[str], handle: Any, *arguments: int) -> Any:
        for name in names:
            with suppress(Exception):
                answer = getattr(self._nvml, name)(handle, *arguments)
                self._heard = True
                return answer
        return None

    def _listed_pids(self, card: _Card) -> set[int]:
        return {process.pid for process in self._answer(_COMPUTING, card.used) or ()}


def _card(nvml: Any, uuid: UUID) -> _Card:
    try:
        whole = nvml.nvmlDeviceGetHandleByUUID(f"GPU-{uuid}")
    except nvml.NVMLError:
        instance = nvml.nvmlDeviceGetHandleByUUID(f"MIG-{uuid}")
        return _Card(instance, nvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(instance))
    return _Card(whole, whole)


def _cuda_uuid(device: jax.Device) -> UUID:
    """Ask the CUDA driver; of a MIG instance it tells the instance's UUID.

    Raises:
        OSError: There is no such driver, or it does not answer.
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
    """Return those processes on a card that are others', as far as this process can tell.

    This process is on the card itself. A list without it was written in another PID namespace,
    outside this container, and one of its numbers may be ours: then nobody is accused. Nor is a
    process that has ended since, which may have been a child.
    """
    with suppress(psutil.Error):
        me = psutil.Process()
        if me.pid in listed:
            family = {one.pid for one in (me, *me.parents(), *me.children(recursive=True))}
            return {pid for pid in listed - family if psutil.pid_exists(pid)}
    return set()
