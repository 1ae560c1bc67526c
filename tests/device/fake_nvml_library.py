"""A fake of NVML's C library for NVIDIA's binding: from nvml.h, not tried with a real card."""

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

SUCCESS, NOT_SUPPORTED, NOT_FOUND, INSUFFICIENT_SIZE = 0, 3, 6, 7
CARD, INSTANCE = 0xCA4D, 0x1257


@dataclass
class FakeLibrary:
    """One card, which may have a MIG instance.

    Attributes:
        uuids: The handle of each UUID as NVML writes it.
        missing: Functions that this version of the driver does not have.
        unsupported: Functions that answer "Not Supported".
    """

    uuids: dict[str, int]
    pids: Sequence[int] = ()
    reasons: int = 0
    missing: Sequence[str] = ()
    unsupported: Sequence[str] = ()

    def __getattr__(self, name: str) -> Any:
        """Find a symbol, as `ctypes.CDLL` does."""
        if name in self.missing or name not in SYMBOLS:
            raise AttributeError(f"undefined symbol: {name}")
        if name in self.unsupported:
            return lambda *_: NOT_SUPPORTED
        return partial(SYMBOLS[name], self)

    def init(self, flags: int) -> int:
        """Load the library."""
        return flags

    def shut_down(self) -> int:
        """Release the library."""
        return SUCCESS

    def find(self, uuid: Any, device: Any) -> int:
        """Find a card or an instance."""
        return self._give(device, self.uuids.get(uuid.value.decode()))

    def find_card(self, part: Any, device: Any) -> int:
        """Find an instance's card."""
        return self._give(device, CARD if _number(part) == INSTANCE else None)

    def clock(self, device: Any, clock: Any, mhz: Any) -> int:
        """Return a clock in MHz; number 1 is that of the multiprocessors."""
        return self._answer(device, mhz, {1: 1980}[clock.value])

    def temperature_v1(self, device: Any, asked: Any) -> int:
        """Fill in a struct of version 1: its size, and the version in the highest byte."""
        struct = asked._obj
        if struct.version != (ctypes.sizeof(struct) | 1 << 24) or struct.sensorType != 0:
            return NOT_FOUND
        struct.temperature = 41
        return SUCCESS if _number(device) == CARD else NOT_SUPPORTED

    def temperature(self, device: Any, sensor: Any, celsius: Any) -> int:
        """Return the temperature of the chip, sensor number 0."""
        return self._answer(device, celsius, {0: 41}[sensor.value])

    def throttling(self, device: Any, mask: Any) -> int:
        """Return the mask of reasons for a lower clock."""
        return self._answer(device, mask, self.reasons)

    def processes(self, _: Any, count: Any, infos: Any) -> int:
        """List the processes once the buffer is large enough."""
        room, count._obj.value = count._obj.value, len(self.pids)
        if infos is None or room < len(self.pids):
            return INSUFFICIENT_SIZE if self.pids else SUCCESS
        for info, pid in zip(infos, self.pids, strict=False):
            info.pid, info.usedGpuMemory = pid, 1 << 30
        return SUCCESS

    def _answer(self, device: Any, target: Any, value: int) -> int:
        """Answer for the card; an instance has no clock and no temperature."""
        target._obj.value = value
        return SUCCESS if _number(device) == CARD else NOT_SUPPORTED

    def _give(self, device: Any, handle: int | None) -> int:
        if handle is None:
            return NOT_FOUND
        ctypes.c_void_p.from_buffer(device._obj).value = handle
        return SUCCESS


SYMBOLS: dict[str, Callable[..., int]] = {
    "nvmlInitWithFlags": FakeLibrary.init,
    "nvmlShutdown": FakeLibrary.shut_down,
    "nvmlDeviceGetHandleByUUID": FakeLibrary.find,
    "nvmlDeviceGetDeviceHandleFromMigDeviceHandle": FakeLibrary.find_card,
    "nvmlDeviceGetClockInfo": FakeLibrary.clock,
    "nvmlDeviceGetTemperatureV": FakeLibrary.temperature_v1,
    "nvmlDeviceGetTemperature": FakeLibrary.temperature,
    "nvmlDeviceGetCurrentClocksEventReasons": FakeLibrary.throttling,
    "nvmlDeviceGetCurrentClocksThrottleReasons": FakeLibrary.throttling,
    "nvmlDeviceGetComputeRunningProcesses_v3": FakeLibrary.processes,
}


def _number(handle: Any) -> int | None:
    return ctypes.cast(handle, ctypes.c_void_p).value
