"""Waiting for a batch ends, whatever happens to its workers."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event

import pytest

from netpipe.errors import HangError, InputError, LoaderFailedError
from netpipe.workload.tokens.batches import Batch
from netpipe.workload.trainer import iterators
from netpipe.workload.trainer.iterators import AwaitedBatches

LIMIT_S = 60.0


@pytest.fixture(autouse=True)
def quick_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Poll often."""
    monkeypatch.setattr(iterators, "_POLL_S", 0.01)


def made_by(make: Callable[[], Batch]) -> Iterator[Batch]:
    """Return batches without end, each made by a call."""
    while True:
        yield make()


def wait_for_ever() -> Batch:
    """Make no batch."""
    Event().wait()
    return {}


def test_a_batch_and_the_end_are_passed_on() -> None:
    """Batches and `StopIteration` are passed on."""
    batches = AwaitedBatches(iter([Batch()]), LIMIT_S)
    assert next(batches) == {}
    with pytest.raises(StopIteration):
        next(batches)


def test_an_error_of_the_loader_is_named() -> None:
    """Our own errors pass unchanged; others become a `LoaderFailedError` with a way out."""

    def damaged() -> Batch:
        raise InputError("file", "record", "be readable", "noise")

    def broken() -> Batch:
        raise RuntimeError("broken")

    with pytest.raises(InputError, match="record must be readable"):
        next(AwaitedBatches(made_by(damaged), LIMIT_S))
    with pytest.raises(LoaderFailedError, match=r"RuntimeError: broken\. Start the training again"):
        next(AwaitedBatches(made_by(broken), LIMIT_S))


def test_a_batch_that_does_not_come_is_an_error() -> None:
    """The error names the setting of the limit."""
    with pytest.raises(HangError, match=r"no batch within 0.02 s, the limit network_batch_limit_s"):
        next(AwaitedBatches(made_by(wait_for_ever), 0.02))


def test_an_iterator_that_failed_stays_failed() -> None:
    """After an error, no other batch is requested from the loader."""
    late, asked = Event(), []

    def slow() -> Batch:
        asked.append(1)
        late.wait()
        return {}

    batches = AwaitedBatches(made_by(slow), 0.02)
    with pytest.raises(HangError):
        next(batches)
    late.set()
    with pytest.raises(HangError):
        next(batches)
    assert len(asked) == 1


@pytest.fixture
def killed() -> Iterator[Callable[[], int]]:
    """Starts and kills a process, and returns its pid."""
    processes = list[multiprocessing.process.BaseProcess]()

    def kill() -> int:
        process = multiprocessing.get_context("spawn").Process(target=time.sleep, args=(600,))
        process.start()
        processes.append(process)
        assert process.pid
        os.kill(process.pid, signal.SIGKILL)
        return process.pid

    yield kill
    for process in processes:
        process.join()


def test_a_killed_worker_ends_the_wait(killed: Callable[[], int]) -> None:
    """A killed worker ends the wait long before the limit."""
    batches = AwaitedBatches(made_by(wait_for_ever), LIMIT_S)
    pid = killed()
    with pytest.raises(LoaderFailedError, match=f"process {pid} was ended by SIGKILL"):
        next(batches)


def test_a_process_that_crashed_before_is_not_a_worker(killed: Callable[[], int]) -> None:
    """A process of the user that crashed before the loader was made does not end the training."""
    killed()
    with pytest.raises(HangError):
        next(AwaitedBatches(made_by(wait_for_ever), 0.5))


TRAINING = """
import os, signal, sys
import jax, numpy as np
from jax.sharding import Mesh
from netpipe.jobs.processes import list_workers
from netpipe.workload.trainer.iterators import make_network_train_iterator
from netpipe.workload.trainer.network_config import NetworkConfig

if __name__ == "__main__":
    mesh = Mesh(np.array(jax.devices()[:1]), ("data",))
    config = NetworkConfig(sys.argv[1], global_batch_size_to_load=32, grain_worker_count=2)
    batches = make_network_train_iterator(config, mesh, [0])
    for number in range(100_000):
        next(batches)
        if number == 5:
            os.kill(next(iter(list_workers())), signal.SIGKILL)
"""


def test_a_training_whose_worker_is_killed_ends(many: Path, tmp_path: Path) -> None:
    """Training ends with an error, even if Grain would wait forever."""
    script = tmp_path / "training.py"
    script.write_text(TRAINING)
    with (tmp_path / "errors").open("w+") as errors:
        ended = subprocess.run(
            [sys.executable, str(script), str(many)],
            env={**os.environ, "JAX_PLATFORMS": "cpu"}, stdout=errors, stderr=errors,
            timeout=300, check=False,
        )  # fmt: skip
        errors.seek(0)
        said = errors.read()
    assert ended.returncode == 1
    assert "netpipe.errors.LoaderFailedError: " in said
    assert "exit code -9" in said or "was ended by SIGKILL" in said
