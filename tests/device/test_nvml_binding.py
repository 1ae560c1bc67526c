"""The GPU's health through NVIDIA's own binding, with a fake library that follows nvml.h.

It has not been tried with a real card.
"""

import ctypes
import os
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from netpipe.device import gpu
from netpipe.device.gpu import GpuWatch
from netpipe.results.measurement import GpuHealth
from tests.device.fake_gpu import FakeDriver, gpu_device
from tests.device.fake_nvml_library import CARD, INSTANCE, FakeLibrary

pynvml: Any = pytest.importorskip("pynvml", reason="nvidia-ml-py is in the extra dev")

CARD_UUID, INSTANCE_UUID = UUID(int=0x1111), UUID(int=0x3333)
HEALTHY = GpuHealth((1980.0,), (41.0,), 0, (), ())

Looked = Callable[[UUID, FakeLibrary], GpuHealth | None]


@pytest.fixture
def looked(monkeypatch: pytest.MonkeyPatch) -> Looked:
    """Make the binding load this library; return the health after one look."""

    def look(used: UUID, library: FakeLibrary) -> GpuHealth | None:
        monkeypatch.setattr(pynvml, "nvmlLib", library)
        monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
        monkeypatch.setattr(ctypes, "CDLL", {"libcuda.so.1": FakeDriver(used)}.__getitem__)
        watch = GpuWatch.open([gpu_device()])
        assert watch is not None
        watch.look()
        return watch.health()

    return look


def make_library(**changes: Any) -> FakeLibrary:
    """Return a library with one card, on which this process computes."""
    return FakeLibrary({f"GPU-{CARD_UUID}": CARD}, pids=[os.getpid()], **changes)


def test_numbers_are_those_of_the_binding() -> None:
    """Every harmful reason, the clock and the sensor have the values of nvml.h."""
    assert set(gpu._HARMFUL) == {
        pynvml.nvmlClocksThrottleReasonHwSlowdown,
        pynvml.nvmlClocksThrottleReasonSwThermalSlowdown,
        pynvml.nvmlClocksThrottleReasonHwThermalSlowdown,
        pynvml.nvmlClocksThrottleReasonHwPowerBrakeSlowdown,
    }
    assert (gpu._SM_CLOCK, gpu._GPU_SENSOR) == (pynvml.NVML_CLOCK_SM, pynvml.NVML_TEMPERATURE_GPU)


def test_a_card_answers_through_the_binding(looked: Looked) -> None:
    """Handle, clock, temperature and processes are requested as the library expects."""
    assert looked(CARD_UUID, make_library()) == HEALTHY


def test_a_mask_of_reasons_is_read(looked: Looked) -> None:
    """Heat counts as throttling, but not the power cap."""
    health = looked(CARD_UUID, make_library(reasons=0x44))
    assert health is not None
    assert (health.throttled_rounds, health.throttle_reasons) == (1, ("hardware thermal slowdown",))


def test_a_mig_instance_answers_for_its_card(looked: Looked) -> None:
    """CUDA's UUID is the instance's, whose clock is Not Supported; its card has the clock."""
    library = FakeLibrary({f"MIG-{INSTANCE_UUID}": INSTANCE}, pids=[os.getpid()])
    assert looked(INSTANCE_UUID, library) == HEALTHY


def test_a_driver_of_an_older_version_is_asked_by_older_names(looked: Looked) -> None:
    """After Function Not Found, the next name is tried."""
    newer = ("nvmlDeviceGetTemperatureV", "nvmlDeviceGetCurrentClocksEventReasons")
    health = looked(CARD_UUID, make_library(missing=newer, reasons=0x20))
    assert health is not None
    assert health.temperature_c == (41.0,)
    assert health.throttle_reasons == ("software thermal slowdown",)


def test_what_a_guest_may_not_ask_is_left_out(looked: Looked) -> None:
    """A virtual machine's card may answer Not Supported; the other quantities are recorded."""
    hidden = ("nvmlDeviceGetTemperatureV", "nvmlDeviceGetTemperature")
    health = looked(CARD_UUID, make_library(unsupported=hidden))
    assert health == GpuHealth((1980.0,), (), 0, (), ())
