"""`netpipe hosts`: one verdict from the measurements of several hosts."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from netpipe.results.measurement import Measurement
from netpipe.verdict.decision import judge
from netpipe.verdict.document import measurement_document
from netpipe.workload.preparation.prepare import prepare
from tests.command import Netpipe, document
from tests.measurements import CPU, make_measurement
from tests.workload.factories import make_pings, write_probes
from tests.workload.trainer.test_two_processes import free_port

SLOW = {"load_s": 0.060, "train_s": 0.060}
TOO_FEW = {"rounds": 1}


def files(folder: Path, *measurements: Measurement) -> list[Path]:
    """Write the document of each host."""
    paths = [folder / f"host-{number}.json" for number in range(len(measurements))]
    for path, measured in zip(paths, measurements, strict=True):
        path.write_text(json.dumps(measurement_document(measured, judge(measured))))
    return paths


def test_hosts_that_are_fed_pass(netpipe: Netpipe, tmp_path: Path) -> None:
    """The slowest host is still named, with its delay behind the fastest."""
    paths = files(tmp_path, make_measurement(), make_measurement(load_s=0.015))
    found = netpipe("hosts", *paths)
    assert found.exit_code == 0, found.output
    assert f"{paths[1]}: healthy" in found.stdout
    behind = f"slowest: {paths[1]}: 1.50 (1.50 to 1.50) x the load time of the fastest"
    assert behind in " ".join(found.stdout.split())
    assert "ends not compared" in found.stdout


def test_hosts_in_a_storage_are_marked(netpipe: Netpipe, tmp_path: Path) -> None:
    """The load times of hosts in a storage are derived."""
    paths = files(tmp_path, *[make_measurement(storage="network-disk")] * 2)
    assert "h200-x1 in network-disk (derived): " in netpipe("hosts", *paths).stdout


@pytest.mark.parametrize(
    ("hosts", "code", "kind"),
    [
        ([{}, SLOW, {}], 1, "loader-bound"),
        ([SLOW, TOO_FEW], 1, "loader-bound"),
        ([{}, TOO_FEW], 3, "inconclusive"),
    ],
)
def test_one_host_that_waits_fails_all(
    netpipe: Netpipe, tmp_path: Path, hosts: list[dict[str, Any]], code: int, kind: str
) -> None:
    """An inconclusive host leaves the verdict open, unless another host waits."""
    paths = files(tmp_path, *(make_measurement(**host) for host in hosts))
    found = netpipe("hosts", *paths, "--json")
    assert found.exit_code == code
    device = document(found, "hosts.1.json")["devices"]["h200-x1"]
    assert device["verdict"]["kind"] == kind
    assert not device["passes"]


def test_hosts_that_end_apart_fail(netpipe: Netpipe, tmp_path: Path) -> None:
    """Different ends fail the verdict even if every host is fed."""
    paths = files(tmp_path, *(make_measurement(epoch_batches=number) for number in (40, 40, 38)))
    found = netpipe("hosts", *paths)
    assert found.exit_code == 1
    ends = f"{paths[0]} 40, {paths[1]} 40, {paths[2]} 38"
    said = " ".join(found.stdout.split())
    assert f"the loaders end after different numbers of batches: {ends}" in said
    together = files(tmp_path, *(make_measurement(epoch_batches=40) for _ in range(2)))
    assert netpipe("hosts", *together).exit_code == 0


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (make_measurement(batch_bytes=7), "host-1.json: batch_bytes must be that of "),
        (make_measurement(device=CPU), "host-1.json: device must be h200-x1, as another host's"),
    ],
)
def test_hosts_that_cannot_be_compared_are_refused(
    netpipe: Netpipe, tmp_path: Path, other: Measurement, message: str
) -> None:
    """The error names the file and the aspect."""
    paths = files(tmp_path, make_measurement(), other)
    found = netpipe("hosts", *paths)
    assert found.exit_code == 2
    assert message in " ".join(found.stderr.split())
    assert netpipe("hosts", paths[0]).exit_code == 2
    assert netpipe("hosts", paths[0], paths[0]).exit_code == 2


TARGET = """
import os, sys, time
import jax, numpy as np
from jax.sharding import Mesh
from netpipe.workload.trainer.iterators import make_network_train_iterator
from netpipe.workload.trainer.network_config import NetworkConfig

def loader():
    host = int(os.environ["HOST"])
    if not jax.distributed.is_initialized():
        jax.distributed.initialize(f"127.0.0.1:{os.environ['PORT']}", 2, host)
    config = NetworkConfig(
        os.environ["DATA"], max_target_length=64, global_batch_size_to_load=8, grain_worker_count=0
    )
    mesh = Mesh(np.array(jax.devices()), ("data",))
    for batch in make_network_train_iterator(config, mesh, range(2)):
        assert not batch["inputs"].is_fully_addressable
        time.sleep(0.1 * host)
        yield batch
"""


def test_two_processes_of_a_training_measure_their_loaders(
    netpipe: Netpipe, tmp_path: Path
) -> None:
    """Each host loads its part of global batches at the same time; the slow one is named."""
    write_probes(tmp_path / "many.parquet", {n: make_pings(150, seed=n) for n in range(20)})
    prepare([tmp_path / "many.parquet"], tmp_path / "data")
    (tmp_path / "target.py").write_text(TARGET)
    paths = [tmp_path / f"host-{host}.json" for host in range(2)]
    shared = {**os.environ, "PORT": str(free_port()), "DATA": str(tmp_path / "data")}
    words = ["--accelerator", "emulated:30ms", "--budget", "8", "--json", "--quiet"]
    started = []
    for host, path in enumerate(paths):
        with path.open("w") as stdout, path.with_suffix(".errors").open("w") as stderr:
            command = [sys.executable, "-m", "netpipe", "measure", "--loader", "target.py:loader"]
            started.append(
                subprocess.Popen(
                    [*command, *words], cwd=tmp_path, stdout=stdout, stderr=stderr,
                    env={**shared, "HOST": str(host)},
                )
            )  # fmt: skip
    try:
        codes = [process.wait(300) for process in started]
    finally:
        for process in started:
            process.kill()
    assert codes[1] == 1, paths[1].with_suffix(".errors").read_text()
    found = netpipe("hosts", *paths, "--json")
    assert found.exit_code == 1
    device = document(found, "hosts.1.json")["devices"]["emulated-30ms"]
    assert device["slowest"] == str(paths[1])
    assert device["behind"]["low"] > 1
    assert device["verdict"]["kind"] == "loader-bound"
