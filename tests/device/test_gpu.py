"""The GPU's health, from a fake driver and a fake NVML binding."""

import ctypes
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import psutil
import pytest

from netpipe.device.gpu import GpuWatch
from netpipe.results.measurement import GpuHealth
from tests.device.fake_gpu import FUNCTIONS, FakeDriver, FakeGpu, FakeNvml, gpu_device

FIRST, SECOND = UUID(int=0x1111), UUID(int=0x2222)
STRANGER, OTHER_STRANGER = 4_100_001, 4_100_002  # above any PID in use here


@pytest.fixture
def gpu() -> FakeGpu:
    """The first card in CUDA's order."""
    return FakeGpu()


@pytest.fixture(autouse=True)
def nvml(gpu: FakeGpu, monkeypatch: pytest.MonkeyPatch) -> FakeNvml:
    """A binding with two cards in the reverse of CUDA's order."""
    fake = FakeNvml({f"GPU-{SECOND}": FakeGpu(clock_mhz=1200), f"GPU-{FIRST}": gpu})
    monkeypatch.setitem(sys.modules, "pynvml", fake)
    return fake


@pytest.fixture(autouse=True)
def driver(monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
    """A CUDA driver with the two cards in the reverse of NVML's order."""
    fake = FakeDriver(FIRST, SECOND)
    monkeypatch.setattr(ctypes, "CDLL", {"libcuda.so.1": fake}.__getitem__)
    return fake


@pytest.fixture(autouse=True)
def strangers(monkeypatch: pytest.MonkeyPatch) -> set[int]:
    """Fake processes, in addition to the real ones."""
    alive = {STRANGER, OTHER_STRANGER}
    exists = psutil.pid_exists
    monkeypatch.setattr(psutil, "pid_exists", lambda pid: pid in alive or exists(pid))
    return alive


@pytest.fixture
def watch() -> GpuWatch:
    """A watch on the first card in CUDA's order."""
    return opened(gpu_device())


@pytest.fixture
def child() -> Iterator[int]:
    """A living child of this process."""
    waiting = (sys.executable, "-S", "-c", "input()")
    with subprocess.Popen(waiting, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        yield process.pid


def opened(*devices: Any) -> GpuWatch:
    """Watch some devices; fail if that is not possible."""
    watch = GpuWatch.open(devices)
    assert watch is not None
    return watch


def health(watch: GpuWatch) -> GpuHealth:
    """Return the recorded health; fail if there is none."""
    seen = watch.health()
    assert seen is not None
    return seen


def test_a_card_is_found_by_the_number_that_jax_gives_it() -> None:
    """CUDA's order counts, not NVML's."""
    for ordinal, clock_mhz in ((0, 1980.0), (1, 1200.0)):
        watch = opened(gpu_device(ordinal))
        watch.look()
        assert health(watch).sm_clock_mhz == (clock_mhz,)


@pytest.mark.parametrize("order", ["FASTEST_FIRST", "PCI_BUS_ID"])
@pytest.mark.parametrize(
    "visible", ["1", "1,0", f"GPU-{SECOND}", f"GPU-{SECOND},GPU-{FIRST}", f"GPU-{str(SECOND)[:8]}"]
)
def test_the_driver_decides_which_cards_are_visible(
    driver: FakeDriver, monkeypatch: pytest.MonkeyPatch, visible: str, order: str
) -> None:
    """The device number of jax refers to the driver's list; the settings are not read again."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    monkeypatch.setenv("CUDA_DEVICE_ORDER", order)
    driver.uuids = (SECOND, FIRST)[: visible.count(",") + 1]
    watch = opened(gpu_device(0))
    watch.look()
    assert health(watch).sm_clock_mhz == (1200.0,)


def test_every_look_has_its_entry(watch: GpuWatch, gpu: FakeGpu) -> None:
    """Clock and temperature are recorded, without foreign processes and throttling."""
    watch.look()
    gpu.clock_mhz, gpu.temperature_c = 1755, 62
    watch.look()
    assert watch.health() == GpuHealth((1980.0, 1755.0), (41.0, 62.0), 0, (), ())


def test_several_cards_are_as_good_as_their_worst(nvml: FakeNvml, gpu: FakeGpu) -> None:
    """One look records the lowest clock, the highest temperature, all reasons and strangers."""
    gpu.temperature_c, gpu.reasons, gpu.computing = 70, 0x40, [os.getpid(), STRANGER]
    other = nvml.gpus[f"GPU-{SECOND}"]
    other.reasons, other.computing = 0x48, [os.getpid(), OTHER_STRANGER]
    watch = opened(gpu_device(0), gpu_device(1))
    watch.look()
    reasons = ("hardware slowdown", "hardware thermal slowdown")
    assert health(watch) == GpuHealth((1200.0,), (70.0,), 1, reasons, (STRANGER, OTHER_STRANGER))


@pytest.mark.parametrize(
    ("mask", "reason"),
    [
        (0x08, "hardware slowdown"),
        (0x20, "software thermal slowdown"),
        (0x40, "hardware thermal slowdown"),
        (0x80, "hardware power brake"),
    ],
)
def test_heat_and_a_failing_supply_throttle(
    watch: GpuWatch, gpu: FakeGpu, mask: int, reason: str
) -> None:
    """Each throttled round counts, and each reason is named once."""
    for gpu.reasons in (mask, mask | 0x04, 0):
        watch.look()
    assert health(watch).throttled_rounds == 2
    assert health(watch).throttle_reasons == (reason,)


@pytest.mark.parametrize("mask", [0x01, 0x02, 0x04, 0x10, 0x100, 0x200, 0x400])
def test_how_a_card_works_is_no_throttling(watch: GpuWatch, gpu: FakeGpu, mask: int) -> None:
    """Idleness, set clocks, the power cap, sync boost and a display do not count."""
    gpu.reasons = mask
    watch.look()
    assert health(watch).throttled_rounds == 0
    assert health(watch).throttle_reasons == ()


def test_strangers_are_named_even_when_they_have_gone(watch: GpuWatch, gpu: FakeGpu) -> None:
    """Each foreign process is named once, whether it computes or draws."""
    gpu.computing = [os.getpid(), STRANGER, OTHER_STRANGER]
    watch.look()
    gpu.computing = [os.getpid()]
    watch.look()
    assert health(watch).foreign_pids == (STRANGER, OTHER_STRANGER)


def test_the_family_is_not_foreign(watch: GpuWatch, gpu: FakeGpu, child: int) -> None:
    """This process, its parents and its children are not named."""
    gpu.computing = [os.getpid(), os.getppid(), child]
    watch.look()
    assert health(watch).foreign_pids == ()


def test_a_list_from_another_pid_namespace_names_no_process(watch: GpuWatch, gpu: FakeGpu) -> None:
    """A list without this process has PIDs of another namespace, so it is ignored."""
    gpu.computing = [STRANGER]
    watch.look()
    assert health(watch).foreign_pids == ()


def test_a_process_that_is_not_here_is_not_accused(
    watch: GpuWatch, gpu: FakeGpu, strangers: set[int]
) -> None:
    """A PID that does not exist here has ended or is from another namespace."""
    strangers.remove(STRANGER)
    gpu.computing = [os.getpid(), STRANGER]
    watch.look()
    assert health(watch).foreign_pids == ()


def test_no_process_is_foreign_when_the_relatives_are_unknown(
    watch: GpuWatch, gpu: FakeGpu, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without access to /proc, no process is called foreign."""

    def closed(_: psutil.Process) -> None:
        raise psutil.AccessDenied

    monkeypatch.setattr(psutil.Process, "parents", closed)
    gpu.computing = [os.getpid(), STRANGER]
    watch.look()
    assert health(watch).foreign_pids == ()


def test_a_mig_instance_has_processes_and_its_card_the_rest(
    nvml: FakeNvml, driver: FakeDriver, gpu: FakeGpu
) -> None:
    """Processes on other instances of the card are not foreign."""
    instance = UUID(int=0x3333)
    driver.uuids = (instance,)
    nvml.gpus[f"MIG-{instance}"] = FakeGpu(clock_mhz=0)
    nvml.boards[f"MIG-{instance}"] = f"GPU-{FIRST}"
    gpu.reasons, gpu.computing = 0x20, [os.getpid(), STRANGER]
    watch = opened(gpu_device())
    watch.look()
    assert health(watch) == GpuHealth((1980.0,), (41.0,), 1, ("software thermal slowdown",), ())


@pytest.mark.parametrize(
    ("failing", "seen"),
    [
        ("nvmlDeviceGetClockInfo", GpuHealth((), (41.0,), 1, ("hardware slowdown",), (STRANGER,))),
        (
            "nvmlDeviceGetComputeRunningProcesses",
            GpuHealth((1980.0,), (41.0,), 1, ("hardware slowdown",), ()),
        ),
    ],
)
def test_what_cannot_be_answered_is_left_out(
    watch: GpuWatch, nvml: FakeNvml, gpu: FakeGpu, failing: str, seen: GpuHealth
) -> None:
    """If one query fails, the other quantities are still recorded."""
    gpu.reasons, gpu.computing = 0x08, [os.getpid(), STRANGER]
    nvml.failing = {failing}
    watch.look()
    assert watch.health() == seen


def test_a_card_that_answers_nothing_has_no_health(watch: GpuWatch, nvml: FakeNvml) -> None:
    """Without a look there is no health."""
    assert watch.health() is None
    nvml.failing = set(FUNCTIONS)
    watch.look()
    assert watch.health() is None


@pytest.mark.parametrize(
    "devices",
    [
        (),
        (gpu_device(platform="cpu"),),
        (gpu_device(platform="tpu"),),
        (gpu_device(), gpu_device(platform="cpu")),
        (gpu_device(None),),
        (gpu_device(2),),
    ],
    ids=["none", "cpu", "tpu", "mixed", "no number", "unknown number"],
)
def test_other_devices_cannot_be_watched(nvml: FakeNvml, devices: tuple[Any, ...]) -> None:
    """A device that cannot be watched leaves NVML shut down."""
    assert GpuWatch.open(devices) is None
    assert nvml.open == 0


@pytest.mark.parametrize("failing", ["cuInit", "cuDeviceGet", "cuDeviceGetUuid_v2"])
def test_without_the_cards_uuid_none_is_watched(
    nvml: FakeNvml, driver: FakeDriver, failing: str
) -> None:
    """If the card is not certain, none is watched."""
    driver.failing = failing
    assert GpuWatch.open([gpu_device()]) is None
    assert nvml.open == 0


def test_one_unknown_card_of_several_is_too_many(nvml: FakeNvml) -> None:
    """If one of several cards is not found, none is watched."""
    del nvml.gpus[f"GPU-{SECOND}"]
    assert GpuWatch.open([gpu_device(0), gpu_device(1)]) is None
    assert nvml.open == 0


def test_without_cuda_nothing_is_watched(nvml: FakeNvml, monkeypatch: pytest.MonkeyPatch) -> None:
    """GPUs of other makers come without the CUDA driver."""

    def missing(name: str) -> None:
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr(ctypes, "CDLL", missing)
    assert GpuWatch.open([gpu_device()]) is None
    assert nvml.open == 0


def test_without_the_binding_nothing_is_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    """The binding is an optional dependency."""
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert GpuWatch.open([gpu_device()]) is None


@pytest.mark.parametrize("failing", ["nvmlInit", "nvmlDeviceGetHandleByUUID"])
def test_a_binding_that_fails_watches_nothing(nvml: FakeNvml, failing: str) -> None:
    """A missing driver, permission or card is treated the same."""
    nvml.failing = {failing}
    assert GpuWatch.open([gpu_device()]) is None
    assert nvml.open == 0


def test_a_closed_watch_has_left_nvml(watch: GpuWatch, nvml: FakeNvml) -> None:
    """NVML is shut down once, however often `close` is called; the health is kept."""
    watch.look()
    assert nvml.open == 1
    watch.close()
    watch.close()
    assert nvml.open == 0
    assert health(watch).sm_clock_mhz == (1980.0,)


def test_a_watch_that_cannot_leave_is_no_error(watch: GpuWatch, nvml: FakeNvml) -> None:
    """An error at the shutdown is ignored."""
    nvml.failing = {"nvmlShutdown"}
    watch.close()
