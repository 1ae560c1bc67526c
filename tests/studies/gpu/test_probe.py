"""The output of the probe about a card."""

import sys
from types import SimpleNamespace

import pytest

from perf_tests.studies.gpu.probe import ask_nvml


def test_answers_and_errors_are_printed_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fakes are made from the output: types are visible, and an error hides no other answer."""

    def refuse(_: object) -> None:
        raise RuntimeError("Not Supported")

    nvml = SimpleNamespace(
        nvmlInit=lambda: None,
        nvmlSystemGetDriverVersion=lambda: "580.0",
        nvmlDeviceGetCount=lambda: 1,
        nvmlDeviceGetHandleByIndex=lambda index: f"card {index}",
        nvmlDeviceGetName=lambda _: b"NVIDIA H200",
        nvmlDeviceGetMigMode=refuse,
        nvmlDeviceGetClockInfo=lambda _, clock: {1: 1980}[clock],
        nvmlDeviceGetComputeRunningProcesses=lambda _: [SimpleNamespace(pid=7)],
    )
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    answers = ask_nvml()
    assert answers["driver"] == "580.0"
    assert answers["0 Name"] == "b'NVIDIA H200'"
    assert answers["0 MigMode"] == "RuntimeError: Not Supported"
    assert answers["0 ClockInfo"] == "1980"
    assert answers["0 ComputeRunningProcesses"] == "[{'pid': 7}]"
    assert answers["0 UUID"].startswith("AttributeError")
