"""Fakes of NVML's binding and the CUDA driver, for the tests of the GPU's health."""

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any
from uuid import UUID


class NvmlError(Exception):
    """The binding's error."""


@dataclass
class FakeGpu:
    """A card's state."""

    clock_mhz: int = 1980
    temperature_c: int = 41
    reasons: int = 0
    computing: list[int] = field(default_factory=lambda: [os.getpid()])


@dataclass
class FakeNvml:
    """A fake of the binding.

    Attributes:
        gpus: The cards by UUID as NVML writes it. A MIG instance is entered as a card that knows
            only its processes; `boards` has its card.
        failing: Functions that raise.
        open: How often it was initialised and not shut down.
    """

    gpus: dict[str, FakeGpu]
    boards: dict[str, str] = field(default_factory=dict)
    failing: set[str] = field(default_factory=set)
    open: int = 0
    NVMLError: type[Exception] = NvmlError

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """Return a function of the binding."""
        if name not in FUNCTIONS:
            raise AttributeError(f"module 'pynvml' has no attribute {name!r}")
        function = FUNCTIONS[name]

        def call(*arguments: Any) -> Any:
            if name in self.failing:
                raise NvmlError(name)
            return function(self, *arguments)

        return call

    def init(self) -> None:
        """Load the library."""
        self.open += 1

    def shutdown(self) -> None:
        """Release the library."""
        self.open -= 1

    def handle(self, uuid: str) -> str:
        """Find a card or an instance; the UUID is its own handle."""
        if uuid not in self.gpus:
            raise NvmlError("Not Found")
        return uuid

    def board(self, part: str) -> str:
        """Find an instance's card."""
        return self.boards[part]

    def clock_mhz(self, handle: str, clock: int) -> int:
        """Return the clock of the multiprocessors, number 1."""
        return {1: self.gpus[handle].clock_mhz}[clock]

    def temperature_c(self, handle: str, sensor: int) -> int:
        """Return the chip's temperature, sensor number 0."""
        return {0: self.gpus[handle].temperature_c}[sensor]

    def reasons(self, handle: str) -> int:
        """Return the mask of reasons for a lower clock."""
        return self.gpus[handle].reasons

    def computing(self, handle: str) -> list[Any]:
        """List the processes with a CUDA context."""
        return [SimpleNamespace(pid=pid) for pid in self.gpus[handle].computing]


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "nvmlInit": FakeNvml.init,
    "nvmlShutdown": FakeNvml.shutdown,
    "nvmlDeviceGetHandleByUUID": FakeNvml.handle,
    "nvmlDeviceGetDeviceHandleFromMigDeviceHandle": FakeNvml.board,
    "nvmlDeviceGetClockInfo": FakeNvml.clock_mhz,
    "nvmlDeviceGetTemperature": FakeNvml.temperature_c,
    "nvmlDeviceGetTemperatureV": FakeNvml.temperature_c,
    "nvmlDeviceGetCurrentClocksEventReasons": FakeNvml.reasons,
    "nvmlDeviceGetCurrentClocksThrottleReasons": FakeNvml.reasons,
    "nvmlDeviceGetComputeRunningProcesses": FakeNvml.computing,
}


class FakeDriver(SimpleNamespace):
    """A fake of the CUDA driver.

    Attributes:
        uuids: The UUID that each of CUDA's numbers has.
        failing: The function that answers with an error code.
    """

    def __init__(self, *uuids: UUID) -> None:
        self.uuids = uuids
        self.failing = ""
        super().__init__(
            cuInit=lambda _flags: self._code("cuInit"),
            cuDeviceGet=self._device,
            cuDeviceGetUuid_v2=self._uuid,
        )

    def _code(self, name: str) -> int:
        return 3 if name == self.failing else 0

    def _device(self, device: Any, ordinal: int) -> int:
        device._obj.value = ordinal + 100
        return self._code("cuDeviceGet")

    def _uuid(self, uuid: Any, device: Any) -> int:
        uuid._obj[:] = list(self.uuids[device.value - 100].bytes)
        return self._code("cuDeviceGetUuid_v2")


def gpu_device(ordinal: int | None = 0, platform: str = "gpu") -> Any:
    """Pretend to be a jax device."""
    return SimpleNamespace(platform=platform, local_hardware_id=ordinal)
