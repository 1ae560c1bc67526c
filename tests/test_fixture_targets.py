"""This repository's pipeline and step as targets of the command line, and on emulated GPUs."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fixtures import targets
from fixtures.workload import Step, cpu_workload, gpu_workload
from netpipe.jobs.request import REQUEST_VARIABLE
from netpipe.measuring.measure_request import MeasureRequest
from netpipe.workload.config import BATCH_ARRAYS, Config
from netpipe.workload.preparation.synthetic import generate
from netpipe.workload.step import train
from netpipe.workload.step.presets import PRESET_BY_NAME, flops_per_step
from tests.root_process import run_module

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
    workload = targets.loader.workload
    alone = replace(workload, pipeline=replace(workload.pipeline, workers=0))
    batches = replace(targets.loader, workload=alone)()
    assert next(iter(batches))["inputs"].shape == (8, 256)


def test_a_cpu_step_trains_on_a_part_of_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loader makes large batches, and the small step trains on a part of each."""
    workload = cpu_workload(Config())
    assert (workload.pipeline.batch_size, workload.pipeline.sequence_length) == (128, 1024)
    assert workload.step == Config().step
    step = Step(workload)
    assert step.batch_shape == (8, 256)
    assert step.flops_per_step == Step(Config()).flops_per_step
    made: list[tuple[object, ...]] = []

    def sum_up(state: Any, batch: Any) -> Any:
        return state, jax.tree.map(jnp.sum, batch)

    def make(*words: object) -> Any:
        made.append(words)
        return 0, jax.jit(sum_up)

    monkeypatch.setattr(train, "make_step", make)
    rng = np.random.default_rng(0)
    batch = {key: rng.integers(1, 200, (128, 1024), np.int32) for key in BATCH_ARRAYS}
    part = {key: array[:8, :256] for key, array in batch.items()}
    sums, lowered = [], []
    for (state, trained), given in ((step(), batch), (Step(Config())(), part)):
        lowered.append(trained.lower(state, given).as_text())
        sums.append({key: int(value) for key, value in trained(state, given)[1].items()})
    assert sums[0] == sums[1] == {key: int(array.sum()) for key, array in part.items()}
    assert lowered[0] == lowered[1]
    assert made == [(Config().step, 256, 8)] * 2


# A session of the suite's fixtures, whose loader makes empty batches of the workload.
SUITE = {
    "conftest.py": """
import numpy as np
import pytest

from netpipe.verdict.kinds import Verdict
from netpipe.workload.config import BATCH_ARRAYS

Verdict.passes = lambda *_: True  # Times do not matter here: measure once.
pytest_plugins = ["fixtures.dataset", "fixtures.pipeline", "fixtures.step"]


@pytest.fixture
def netpipe_loader(workload):
    shape = workload.pipeline.batch_size, workload.pipeline.sequence_length
    batch = {key: np.zeros(shape, np.int32) for key in BATCH_ARRAYS}
    return lambda: iter(lambda: batch, None)


@pytest.fixture
def netpipe_step():
    return None


@pytest.fixture
def netpipe_fingerprint():
    return "empty"
""",
    "test_gpu.py": """
import pytest


@pytest.mark.netpipe(accelerator="emulated:8xgb200")
def test_gpu(netpipe_measurement):
    pass
""",
}


def test_a_cpu_is_given_large_batches(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So is an emulated step that names no GPU."""
    session = MeasureRequest(accelerator="emulated:10ms", result="result.json")
    monkeypatch.setenv(REQUEST_VARIABLE, session.to_json())
    assert request.getfixturevalue("workload") == cpu_workload(Config())


def test_an_emulated_gpu_is_given_the_gpu_workload(tmp_path: Path) -> None:
    """An emulated GPU's step time follows from our step's FLOPs, in the perf tests too."""
    for name, text in SUITE.items():
        (tmp_path / name).write_text(text)
    run_module(
        "pytest", str(tmp_path), "-p", "no:cacheprovider", "--netpipe-budget", "0.5",
        "--netpipe-json", str(tmp_path / "run.json"),
    )  # fmt: skip
    [found] = json.loads((tmp_path / "run.json").read_text())["measurements"]
    assert found["batch_bytes"] == GPU_BATCH_BYTES
    tflop = Step(gpu_workload(Config())).flops_per_step / 1e12
    assert found["device"]["kind"].startswith(f"emulated:8xgb200, {tflop:.3g} TFLOP a step")
