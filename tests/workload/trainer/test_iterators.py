"""Global batches, in one process with the devices that it has."""

import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any

import jax
import numpy as np
import pytest
from jax.sharding import AbstractMesh, Mesh, NamedSharding, PartitionSpec

from netpipe.errors import HangError, InputError
from netpipe.workload import resume
from netpipe.workload.pipeline import build_evaluation
from netpipe.workload.resume import ResumableBatches
from netpipe.workload.sources.probe_rows import ArrayRecordSource
from netpipe.workload.tokens.batches import Batch
from netpipe.workload.trainer import iterators
from netpipe.workload.trainer.iterators import (
    EvalIterator,
    make_network_eval_iterator,
    make_network_train_iterator,
)
from netpipe.workload.trainer.network_config import NetworkConfig

MESH = Mesh(np.array(jax.devices()[:1]), ("data",))


@pytest.fixture
def config(many: Path) -> NetworkConfig:
    """Small batches, made in this process."""
    return NetworkConfig(
        str(many), max_target_length=64, global_batch_size_to_load=8, grain_worker_count=0,
        grain_worker_count_eval=0,
    )  # fmt: skip


def test_training_gives_the_pipeline_s_batches_on_the_mesh(config: NetworkConfig) -> None:
    """Batches are global arrays with the same contents, and continue from a state."""
    local = ResumableBatches(*config.for_host(0, 1, evaluates=False))
    with closing(make_network_train_iterator(config, MESH, [0])) as batches, closing(local):
        first = next(batches)
        for name, array in next(local).items():
            np.testing.assert_array_equal(np.asarray(first[name]), array)
            assert first[name].sharding == NamedSharding(MESH, PartitionSpec(("data",)))
        second, state = next(batches), batches.get_state()
        batches.set_state({**state, "batch": 1})
        np.testing.assert_array_equal(next(batches)["inputs"], second["inputs"])
        assert batches.get_state() == state


def test_a_batch_that_came_too_late_is_not_counted(
    config: NetworkConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Training did not get the batch, and must get it when it continues."""
    monkeypatch.setattr(iterators, "_POLL_S", 0.01)
    late = Event()
    with closing(make_network_train_iterator(config, MESH, [0])) as batches:
        next(batches)
        monkeypatch.setattr(batches._awaited, "_limit_s", 0.02)
        own = batches._batches
        original = own.dataset()

        def slow() -> Iterator[Batch]:
            late.wait()
            yield from original

        own.iterator = slow()
        with pytest.raises(HangError):
            next(batches)
        late.set()
        while own.get_state()["batch"] == 1:
            time.sleep(0.01)
        assert batches.get_state()["batch"] == 1
        own.iterator = None


@pytest.mark.usefixtures("quick_end")
@pytest.mark.parametrize("evaluates", [False, True])
def test_a_loader_that_hangs_can_be_closed(
    config: NetworkConfig, monkeypatch: pytest.MonkeyPatch, *, evaluates: bool
) -> None:
    """Grain would wait forever for its thread, and a training would not end with its error."""
    late = Event()
    monkeypatch.setattr(ArrayRecordSource, "read", lambda *_: late.wait())
    make = make_network_eval_iterator if evaluates else make_network_train_iterator
    batches = make(replace(config, network_batch_limit_s=1, row_cache_mb=0), MESH, [0])
    with pytest.raises(HangError):
        next(batches)
    batches.reset() if isinstance(batches, EvalIterator) else batches.close()
    assert not late.is_set()
    late.set()


@pytest.fixture
def quick_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Poll often, and wait only briefly for a loader to close."""
    monkeypatch.setattr(iterators, "_POLL_S", 0.01)
    for module in (iterators, resume):
        monkeypatch.setattr(module, "CLOSE_LIMIT_S", 0.05)


def test_a_host_loads_its_part(config: NetworkConfig) -> None:
    """The part of a process is the position of its index among those that load."""
    with closing(make_network_train_iterator(config, MESH, [5, 3], process=5)) as batches:
        assert batches.get_state()["global_batch_size"] == 8
        own = ResumableBatches(*config.for_host(1, 2, evaluates=False))
        with closing(own):
            np.testing.assert_array_equal(next(batches._batches)["inputs"], next(own)["inputs"])


def test_an_evaluation_ends_and_begins_anew(config: NetworkConfig) -> None:
    """Each pass has the same batches, and all of them."""
    batches = make_network_eval_iterator(config, MESH, [0])
    first = [np.asarray(batch["inputs"]) for batch in batches]
    again = [np.asarray(batch["inputs"]) for batch in batches]
    expected = [
        batch["inputs"] for batch in build_evaluation(*config.for_host(0, 1, evaluates=True))
    ]
    np.testing.assert_array_equal(first, expected)
    np.testing.assert_array_equal(first, again)
    batches.reset()
    np.testing.assert_array_equal(next(batches)["inputs"], expected[0])
    batches.reset()


@pytest.mark.parametrize("setting", ["global_batch_size_to_load", "global_batch_size_to_load_eval"])
def test_a_batch_that_the_devices_cannot_share_is_refused(
    config: NetworkConfig, setting: str
) -> None:
    """Otherwise jax would raise its own error at the first batch, after the loader's start."""
    mesh: Any = AbstractMesh((2, 2), ("data", "fsdp"))
    settings: Any = {setting: 6, "data_sharding": ("data", "fsdp")}
    config = replace(config, **settings)
    evaluates = setting.endswith("eval")
    make = make_network_eval_iterator if evaluates else make_network_train_iterator
    with pytest.raises(InputError, match=f"{setting} must be .* the 4 devices"):
        make(config, mesh, [0])


def test_what_does_not_fit_the_mesh_is_refused(config: NetworkConfig, many: Path) -> None:
    """Unknown axes, and a process that is not among those that load, are refused."""
    other = NetworkConfig(str(many), data_sharding=("data", "fsdp"))
    with pytest.raises(
        InputError, match="data_sharding must be axes of the mesh: data; found fsdp"
    ):
        make_network_train_iterator(other, MESH, [0])
    with pytest.raises(InputError, match=r"process must be one of \[1, 2\]; found 0"):
        make_network_eval_iterator(config, MESH, [1, 2])
