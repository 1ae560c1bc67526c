"""`python -m perf_tests.studies.gpu.probe`: report what jax, NVML and the step say here.

Fakes for tests are made from this output, so nothing is left out or rounded. A query that fails is
printed with its error.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial
from importlib import import_module
from typing import Any, Final

import jax
import numpy as np

from fixtures.step import workload_of
from fixtures.workload import Step
from netpipe.device.gpu import GpuWatch
from netpipe.workload.config import Config
from netpipe.workload.step.train import synthetic_batch

_QUERIES: Final[Mapping[str, tuple[int, ...]]] = {
    "Name": (), "UUID": (), "MigMode": (), "MemoryInfo": (), "ClockInfo": (1,),
    "TemperatureV": (0,), "Temperature": (0,), "CurrentClocksEventReasons": (),
    "CurrentClocksThrottleReasons": (), "ComputeRunningProcesses": (), "PowerUsage": (),
    "EnforcedPowerLimit": (), "CurrPcieLinkGeneration": (), "CurrPcieLinkWidth": (),
}  # fmt: skip
_COPIED_BYTES: Final = {"gpu": 1 << 28, "cpu": 1 << 22}
_STEPS: Final = 5


def _tried(query: Callable[[], Any]) -> Any:
    try:
        return query()
    except Exception as error:  # noqa: BLE001  # any error is part of the answer
        return f"{type(error).__name__}: {error}"


def ask_nvml() -> dict[str, Any]:
    """Return NVML's answers about each card, by the name of the query."""
    nvml = import_module("pynvml")
    nvml.nvmlInit()
    answers = {"driver": _tried(nvml.nvmlSystemGetDriverVersion)}
    for index in range(nvml.nvmlDeviceGetCount()):
        card = nvml.nvmlDeviceGetHandleByIndex(index)
        for name in _QUERIES:
            answers[f"{index} {name}"] = _tried(partial(_ask, nvml, name, card))
    return answers


def _ask(nvml: Any, name: str, card: Any) -> str:
    answer = getattr(nvml, f"nvmlDeviceGet{name}")(card, *_QUERIES[name])
    return str([vars(each) for each in answer] if name.endswith("Processes") else answer)


def time_copies(device: jax.Device) -> dict[str, Any]:
    """Return the bytes a second that reach the device from pageable and from pinned memory."""
    array = np.ones(_COPIED_BYTES[device.platform], np.uint8)
    there = jax.sharding.SingleDeviceSharding(device)

    def rate(source: Any) -> float:
        jax.block_until_ready(jax.device_put(source, there))
        began_s = time.perf_counter()
        jax.block_until_ready([jax.device_put(source, there) for _ in range(_STEPS)])
        return float(_STEPS * array.nbytes / (time.perf_counter() - began_s))

    pinned = jax.sharding.SingleDeviceSharding(device, memory_kind="pinned_host")
    return {
        "pageable_bytes_per_s": _tried(lambda: rate(array)),
        "pinned_bytes_per_s": _tried(lambda: rate(jax.device_put(array, pinned))),
    }


def train(device: jax.Device) -> dict[str, Any]:
    """Return the time of a few steps, the memory left, and the card's health."""
    target = Step(workload_of(device, Config()))
    state, run = target()
    (sequences, tokens), watch = target.batch_shape, GpuWatch.open([device])
    batch, seconds = synthetic_batch(target.workload.step, tokens, sequences, 0), []
    old = jax.tree.leaves(state)
    for _ in range(_STEPS):
        began_s = time.perf_counter()
        state, aux = run(state, batch)
        jax.block_until_ready((state, aux))
        seconds.append(time.perf_counter() - began_s)
        if watch:
            watch.look()
    health = watch and watch.health()
    return {
        "batch_shape": target.batch_shape,
        "seconds": seconds,
        "loss": float(aux["loss"]),
        "donated": f"{sum(leaf.is_deleted() for leaf in old)} of {len(old)} arrays",
        "memory": device.memory_stats(),
        "watched": watch is not None,
        "health": health and asdict(health),
    }


def main() -> None:
    """Print a JSON document."""
    device = jax.devices()[0]
    document = {
        "kind": device.device_kind,
        "platform_version": device.client.platform_version,
        "hardware_id": device.local_hardware_id,
        "variables": {name: value for name, value in os.environ.items()
                      if name.startswith(("CUDA", "JAX", "NVIDIA", "XLA"))},
        "memory": device.memory_stats(),
        "nvml": _tried(ask_nvml),
        "copies": time_copies(device),
        "training": _tried(lambda: train(device)),
    }  # fmt: skip
    sys.stdout.write(json.dumps(document, indent=2, default=repr) + "\n")


if __name__ == "__main__":
    main()
