"""This repository's pipeline and step as targets of the command line, and on emulated GPUs."""

import fcntl
import json
from pathlib import Path

import pytest

from fixtures import embedded, targets
from fixtures.workload import flops_per_step, gpu_workload
from netpipe.config import Config
from netpipe.data.synthetic import generate
from tests.root_process import run_module

GPU_BATCH_BYTES = 6 * 128 * 1024 * 4


@pytest.fixture
def generated(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The folders that data was generated in; nothing is but an index."""
    folders: list[Path] = []

    def note(out: Path) -> None:
        folders.append(out)
        out.mkdir(parents=True)
        (out / "index.json").write_text('{"schema": "netpipe.index/1"}')

    monkeypatch.setattr(embedded, "generate", note)
    return folders


def test_data_is_generated_once(generated: list[Path], tmp_path: Path) -> None:
    """The second who asks finds what the first has made."""
    assert embedded.embedded_data(tmp_path) == embedded.embedded_data(tmp_path) == generated[0]
    assert len(generated) == 1


def test_data_is_generated_by_one_process(
    generated: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever else wants to is kept waiting meanwhile."""
    kept: list[Path] = []

    def generate_alone(out: Path) -> None:
        with next(tmp_path.glob("*.lock")).open() as lock, pytest.raises(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        kept.append(out)

    monkeypatch.setattr(embedded, "generate", generate_alone)
    assert [embedded.embedded_data(tmp_path)] == kept
    assert generated == []


def test_data_that_another_process_made_is_used(
    generated: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who has waited for it finds it, leaves it alone and generates nothing."""

    def wait(*_: object) -> None:
        made = tmp_path / embedded._NAME
        made.mkdir()
        (made / "index.json").write_text('{"schema": "netpipe.index/1"}')
        (made / "shard").touch()

    monkeypatch.setattr(fcntl, "flock", wait)
    assert (embedded.embedded_data(tmp_path) / "shard").exists()
    assert generated == []


def test_half_made_data_is_made_again(generated: list[Path], tmp_path: Path) -> None:
    """A folder without an index is none of use."""
    target = embedded.embedded_data(tmp_path)
    (target / "index.json").unlink()
    assert embedded.embedded_data(tmp_path) == target
    assert len(generated) == 2


def test_the_cache_of_the_user_is_taken(
    generated: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """XDG_CACHE_HOME, and ~/.cache without it; NETPIPE_DATA goes before both."""
    monkeypatch.delenv("NETPIPE_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert embedded.data_of_user().parent == tmp_path / "xdg" / "netpipe"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert embedded.data_of_user().parent == tmp_path / "home" / ".cache" / "netpipe"
    monkeypatch.setenv("NETPIPE_DATA", "prepared")
    assert embedded.data_of_user() == Path("prepared")
    assert len(generated) == 2


def test_the_gpu_workload_is_the_large_model() -> None:
    """A GPU trains 128 sequences of 1024 tokens, or as many as its memory holds."""
    pipeline = gpu_workload(Config()).pipeline
    assert (pipeline.batch_size, pipeline.sequence_length) == (128, 1024)
    assert gpu_workload(Config()).step.preset == "latency-95m"
    assert gpu_workload(Config(), 16 * 2**30).pipeline.batch_size == 32


@pytest.mark.parametrize(
    ("step", "workload"),
    [(targets.step, Config()), (targets.gpu_step, gpu_workload(Config()))],
    ids=["cpu", "gpu"],
)
def test_a_step_knows_its_flops(step: targets.Step, workload: Config) -> None:
    """An emulated GPU needs no flag for our own step."""
    assert step.flops_per_step == flops_per_step(workload) > 0


def test_a_loader_gives_batches_of_its_workload(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The small one gives 8 sequences of 256 tokens of the user's data."""
    monkeypatch.setenv("NETPIPE_DATA", str(tmp_path / "data"))
    generate(tmp_path / "data", probes=30)
    batches = iter(targets.loader())
    try:
        assert next(batches)["inputs"].shape == (8, 256)
    finally:
        batches.close()


def test_an_emulated_gpu_is_given_the_gpu_workload(tmp_path: Path) -> None:
    """In the perf tests too; its step time follows from our step's FLOPs."""
    generate(tmp_path / "data", probes=30)
    run_module(
        "pytest", "perf_tests/test_training.py::test_training_does_not_wait",
        "--netpipe-accelerator", "emulated:8xgb200", "--netpipe-budget", "0.5",
        "--netpipe-data", str(tmp_path / "data"), "--netpipe-json", str(tmp_path / "run.json"),
    )  # fmt: skip
    (measured, *_) = json.loads((tmp_path / "run.json").read_text())["measurements"]
    assert measured["batch_bytes"] == GPU_BATCH_BYTES
    tflop = flops_per_step(gpu_workload(Config())) / 1e12
    assert measured["device"]["kind"].startswith(f"emulated:8xgb200, {tflop:.3g} TFLOP a step")
