"""Choosing the number of workers, and the lines that report it."""

import re
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import jax
import numpy as np
import pytest
from jax.sharding import Mesh

from netpipe.errors import InputError
from netpipe.results.measurement import Host
from netpipe.workload.trainer import worker_count
from netpipe.workload.trainer.iterators import (
    make_network_eval_iterator,
    make_network_train_iterator,
)
from netpipe.workload.trainer.network_config import NetworkConfig
from netpipe.workload.trainer.worker_count import count_workers

MESH = Mesh(np.array(jax.devices()[:1]), ("data",))
HOST = Host("a CPU", cores=4, memory_bytes=8 << 30, container=False)
MIB = 1 << 20


@pytest.fixture
def config(many: Path) -> NetworkConfig:
    """Small batches, for which the numbers of workers are to be chosen."""
    return NetworkConfig(
        str(many), max_target_length=64, global_batch_size_to_load=8, grain_worker_count=-1,
        grain_worker_count_eval=-1,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("host", "budget_mb", "expected"),
    [
        (HOST, 1024, (3, "1024 MiB hold 12 workers of 84 MiB each")),
        (HOST, 200, (2, "200 MiB hold 2 workers of 84 MiB each")),
        (replace(HOST, cores=1), 1024, (1, "1024 MiB hold 12 workers of 84 MiB each")),
        (replace(HOST, memory_bytes=170 * MIB), 1024, (2, "170 MiB hold 2 workers of 84 MiB each")),
        (HOST, 83, (0, "83 MiB hold 0 workers of 84 MiB each; raise grain_ram_budget_mb, or")),
    ],
)
def test_cores_and_memory_bound_the_workers(
    host: Host, budget_mb: int, expected: tuple[int, str]
) -> None:
    """A core is left for training; a budget that is too small for one worker is called so."""
    workers, why = count_workers(84 * MIB, budget_mb, host)
    assert (workers, expected[1] in why) == (expected[0], True)
    assert why.startswith(f"usable cores: {host.cores}, one for training; ")


def test_the_number_is_chosen_from_a_measured_worker(
    config: NetworkConfig, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pipeline has the printed number of workers."""
    monkeypatch.setattr(worker_count, "this_host", lambda: HOST)
    with closing(make_network_train_iterator(config, MESH, [0])) as batches:
        chosen, start = capfd.readouterr().err.splitlines()
        found = re.fullmatch(
            r"netpipe, host 1 of 1, train: grain_worker_count -1 becomes (\d) "
            r"\(usable cores: 4, one for training; 1024 MiB hold (\d+) workers of (\d+) MiB each\)",
            chosen,
        )
        assert found
        workers, fit, each_mb = map(int, found.groups())
        assert workers == min(3, fit) == batches._batches.config.workers
        assert abs(1024 / each_mb - fit) < 1
        assert f"workers: {workers}, batches ahead: 2" in start


def test_a_larger_buffer_leaves_room_for_fewer_workers(
    config: NetworkConfig, capfd: pytest.CaptureFixture[str]
) -> None:
    """Finished batches count, at the size that workers send."""
    huge = replace(
        config, grain_per_worker_buffer_size_eval=3 << 20, grain_ram_budget_mb=2048
    )  # fmt: skip
    batches = make_network_eval_iterator(huge, MESH, [0])
    chosen = capfd.readouterr().err.splitlines()[0]
    assert chosen.startswith("netpipe, host 1 of 1, eval: grain_worker_count_eval -1 becomes 0 (")
    assert chosen.endswith("raise grain_ram_budget_mb, or the training process makes batches)")
    batches.reset()


def test_the_start_says_what_a_host_loads(
    config: NetworkConfig, capfd: pytest.CaptureFixture[str]
) -> None:
    """The line has its part of a batch, its workers, and the fraction of rows in memory."""
    fixed = replace(config, grain_worker_count=0)
    make_network_train_iterator(fixed, MESH, [5, 3], process=5).close()
    make_network_train_iterator(replace(fixed, row_cache_mb=0), MESH, [0]).close()
    kept, read = capfd.readouterr().err.splitlines()
    assert kept.startswith(
        "netpipe, host 2 of 2, train: 4 of 8 sequences of a batch; workers: 0, batches ahead: 2; "
        "rows in memory: "
    )
    found = re.search(r"(\d+) of (\d+) \(100%, 0 MiB\)$", kept)
    assert found
    assert found[1] == found[2]
    assert read.endswith(
        "8 of 8 sequences of a batch; workers: 0, batches ahead: 2; rows in memory: none"
    )


def test_an_error_of_the_data_is_raised_while_a_worker_is_measured(config: NetworkConfig) -> None:
    """The data's own error is raised, not one of the process."""
    with pytest.raises(InputError, match=r"have .* contexts for a batch"):
        make_network_train_iterator(replace(config, global_batch_size_to_load=1 << 20), MESH, [0])
