"""This repository's pipeline and step as targets of the command line, and on emulated GPUs."""

import json
from pathlib import Path

import numpy as np
import pytest

from fixtures import targets
from fixtures.workload import Step, cpu_workload, gpu_workload
from netpipe.workload.config import BATCH_ARRAYS, Config
from netpipe.workload.preparation.synthetic import generate
from netpipe.workload.step.presets import PRESET_BY_NAME, flops_per_step
from tests.root_process import run_module

CPU_BATCH_BYTES = 6 * 128 * 1024 * 4
GPU_BATCH_BYTES = 6 * 16 * 1024 * 4


def test_the_gpu_workload_is_the_large_model() -> None:
    """A GPU trains on 16 sequences of 1024 tokens."""
    pipeline = gpu_workload(Config()).pipeline
    assert (pipeline.batch_size, pipeline.sequence_length) == (16, 1024)
    assert gpu_workload(Config()).step.preset == "latency-95m"


@pytest.mark.parametrize(
    ("step", "workload"),
    [(targets.step, Config()), (targets.gpu_step, gpu_workload(Config()))],
    ids=["cpu", "gpu"],
)
def test_a_step_knows_its_flops(step: Step, workload: Config) -> None:
    """An emulated GPU needs no flag for our own step."""
    architecture, pipeline = PRESET_BY_NAME[workload.step.preset].architecture, workload.pipeline
    flops = flops_per_step(architecture, pipeline.batch_size, pipeline.sequence_length)
    assert step.flops_per_step == flops > 0


def test_a_loader_gives_batches_of_its_workload(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The small loader gives 8 sequences of 256 tokens of the user's data."""
    monkeypatch.setenv("NETPIPE_DATA", str(tmp_path / "data"))
    generate(tmp_path / "data", probes=30)
    batches = iter(targets.loader())
    try:
        assert next(batches)["inputs"].shape == (8, 256)
    finally:
        batches.close()


def test_a_cpu_step_trains_on_a_part_of_a_batch() -> None:
    """The loader makes large batches, and the small step trains on a part of each."""
    workload = cpu_workload(Config())
    assert (workload.pipeline.batch_size, workload.pipeline.sequence_length) == (128, 1024)
    assert workload.step == Config().step
    step = Step(workload)
    assert step.batch_shape == (8, 256)
    assert step.flops_per_step == Step(Config()).flops_per_step
    rng = np.random.default_rng(0)
    batch = {key: rng.integers(1, 200, (128, 1024), np.int32) for key in BATCH_ARRAYS}
    part = {key: array[:8, :256] for key, array in batch.items()}
    losses, lowered = [], []
    for made, given in ((step(), batch), (Step(Config())(), part)):
        state, train = made
        lowered.append(train.lower(state, given).as_text())
        losses.append(float(train(state, given)[1]["loss"]))
    assert losses[0] == losses[1]
    assert lowered[0] == lowered[1]


def test_a_cpu_is_given_large_batches(tmp_path: Path) -> None:
    """So is an emulated step that names no GPU."""
    generate(tmp_path / "data", probes=30)
    run_module(
        "pytest", "perf_tests/test_training.py::test_training_does_not_wait",
        "--netpipe-accelerator", "emulated:60ms", "--netpipe-budget", "0.5",
        "--netpipe-data", str(tmp_path / "data"), "--netpipe-json", str(tmp_path / "run.json"),
    )  # fmt: skip
    (measured, *_) = json.loads((tmp_path / "run.json").read_text())["measurements"]
    assert measured["batch_bytes"] == CPU_BATCH_BYTES


def test_an_emulated_gpu_is_given_the_gpu_workload(tmp_path: Path) -> None:
    """An emulated GPU's step time follows from our step's FLOPs, in the perf tests too."""
    generate(tmp_path / "data", probes=30)
    run_module(
        "pytest", "perf_tests/test_training.py::test_training_does_not_wait",
        "--netpipe-accelerator", "emulated:8xgb200", "--netpipe-budget", "0.5",
        "--netpipe-data", str(tmp_path / "data"), "--netpipe-json", str(tmp_path / "run.json"),
    )  # fmt: skip
    (measured, *_) = json.loads((tmp_path / "run.json").read_text())["measurements"]
    assert measured["batch_bytes"] == GPU_BATCH_BYTES
    tflop = Step(gpu_workload(Config())).flops_per_step / 1e12
    assert measured["device"]["kind"].startswith(f"emulated:8xgb200, {tflop:.3g} TFLOP a step")
