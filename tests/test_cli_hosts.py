"""`netpipe hosts`: one verdict from the measurements of several hosts."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from netpipe.results.measurement import Measurement
from netpipe.verdict.decision import judge
from netpipe.verdict.document import measurement_document
from netpipe.workload.preparation.prepare import prepare
from tests.command import Netpipe, document
from tests.measurements import CPU, make_measurement
from tests.reporting import examples
from tests.watching.windows import line, make_window, write_log
from tests.workload.factories import make_pings, write_probes
from tests.workload.trainer.test_two_processes import free_port

SLOW = {"load_s": 0.060, "train_s": 0.060}
TOO_FEW = {"rounds": 1}


def files(folder: Path, *measurements: Measurement) -> list[Path]:
    """Write the document of each host."""
    paths = [folder / f"host-{number}.json" for number in range(len(measurements))]
    for number, (path, measured) in enumerate(zip(paths, measurements, strict=True)):
        path.write_text(json.dumps(printed(replace(measured, elapsed_s=20.0 + number))))
    return paths


def printed(measured: Measurement, **more: str) -> dict[str, Any]:
    """Return the document of a measurement, which a run of pytest gives the name of its test."""
    return {**measurement_document(measured, judge(measured)), **more}


def run_file(path: Path, *sessions: dict[str, Any]) -> Path:
    """Write the document of a run of pytest."""
    path.write_text(json.dumps(examples.run(measurements=list(sessions))))
    return path


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


@pytest.mark.parametrize("hosts", [(TOO_FEW, SLOW), ({}, TOO_FEW), (TOO_FEW, TOO_FEW)])
def test_a_host_with_few_rounds_has_no_certain_delay(
    netpipe: Netpipe, tmp_path: Path, hosts: tuple[dict[str, Any], ...]
) -> None:
    """The interval of the ratio is as open as that of either load time."""
    found = netpipe(
        "hosts", *files(tmp_path, *(make_measurement(**each) for each in hosts)), "--json"
    )
    behind = document(found, "hosts.1.json")["devices"]["h200-x1"]["behind"]
    assert (behind["low"], behind["high"], behind["n"]) == (None, None, 1)


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
        (make_measurement(storage="disk"), "host-1.json: storage must be that of "),
        (make_measurement(fingerprint="data-2"), "host-1.json: fingerprint must be that of "),
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


def test_copies_of_a_document_are_refused(netpipe: Netpipe, tmp_path: Path) -> None:
    """A copy, a link or a run that holds the same measurement is not another host's."""
    path, *_ = files(tmp_path, make_measurement())
    copy, link = tmp_path / "copy.json", tmp_path / "link.json"
    copy.write_text(json.dumps(json.loads(path.read_text()), indent=4))
    link.symlink_to(path)
    run = run_file(tmp_path / "run.json", json.loads(path.read_text()))
    for other in (copy, link, run):
        found = netpipe("hosts", path, other)
        assert found.exit_code == 2
        assert f"{other}: content must be measured on that host" in " ".join(found.stderr.split())


def test_versions_that_differ_are_named(netpipe: Netpipe, tmp_path: Path) -> None:
    """The error has those of both hosts, without the versions that agree."""
    other = make_measurement(versions={"jax": "0.10.2", "grain": "0.2.17", "numpy": "2"})
    paths = files(tmp_path, make_measurement(), make_measurement(), other)
    found = netpipe("hosts", *paths)
    assert found.exit_code == 2
    expected = (
        f"{paths[2]}: versions must be that of {paths[0]}, {{'grain': '0.2.18'}}; "
        "found {'grain': '0.2.17', 'numpy': '2'}"
    )
    assert expected in " ".join(found.stderr.split())


@pytest.mark.parametrize("tests", [("a::b", "c::d"), ("", "")], ids=["named", "older"])
@pytest.mark.parametrize(("worse", "code"), [(SLOW, 1), (TOO_FEW, 3), ({}, 0)])
def test_every_test_of_a_device_is_judged(
    netpipe: Netpipe, tmp_path: Path, tests: tuple[str, str], worse: dict[str, Any], code: int
) -> None:
    """A second test or session whose training waits fails the hosts, also without its name."""
    paths = []
    for host in range(2):
        sessions = [
            printed(make_measurement(elapsed_s=20.0 + host), **named(tests[0])),
            printed(make_measurement(elapsed_s=30.0 + host, **worse), **named(tests[1])),
        ]
        paths.append(run_file(tmp_path / f"host-{host}.json", *sessions))
    found = netpipe("hosts", *paths, "--json")
    assert found.exit_code == code
    devices = document(found, "hosts.1.json")["devices"]
    assert list(devices) == (["h200-x1 a::b", "h200-x1 c::d"] if tests[0] else ["h200-x1"])
    assert list(devices.values())[-1]["passes"] == (code == 0)
    shown = netpipe("hosts", *paths).stdout
    assert ("h200-x1 c::d: " in shown) == bool(tests[1])


def named(test: str) -> dict[str, str]:
    """Return the name of a test as a field of its measurement, if there is one."""
    return {"test": test} if test else {}


def test_a_test_that_a_host_has_not_run_is_refused(netpipe: Netpipe, tmp_path: Path) -> None:
    """The error names the test, and the tests of that host; an empty run is refused, too."""
    paths = [
        run_file(tmp_path / f"{test}.json", printed(make_measurement(elapsed_s=age), test=test))
        for age, test in ((20.0, "a"), (21.0, "b"))
    ]
    found = netpipe("hosts", *paths)
    assert found.exit_code == 2
    expected = "b.json: device must be h200-x1 a, as another host's; found h200-x1 b"
    assert expected in " ".join(found.stderr.split())
    empty = [run_file(tmp_path / f"{name}.json") for name in "cd"]
    found = netpipe("hosts", *empty)
    assert found.exit_code == 2
    assert "c.json: schema must be netpipe.measurement/1" in " ".join(found.stderr.split())


def test_sessions_of_a_host_that_end_apart_fail(netpipe: Netpipe, tmp_path: Path) -> None:
    """All ends count, not only those of the sessions that decide."""
    sessions = [printed(make_measurement(epoch_batches=end)) for end in (40, 38)]
    paths = [
        run_file(tmp_path / "run.json", *sessions),
        *files(tmp_path, make_measurement(epoch_batches=40)),
    ]
    assert netpipe("hosts", *paths).exit_code == 1


def logs(folder: Path, *idle: float) -> list[Path]:
    """Write the log of each host, whose device is idle for a fraction of the time."""
    hosts = [(f"node-{number}", each) for number, each in enumerate(idle)]
    return [
        write_log(folder / f"{host}.jsonl", *(make_window(n, each, host=host) for n in range(30)))
        for host, each in hosts
    ]


@pytest.mark.parametrize(
    ("idle", "code", "kind"),
    [
        ((0.0, 0.4), 1, "loader-bound"),
        ((0.0, 0.01), 0, "healthy"),
        ((0.0, 0.05), 3, "inconclusive"),
    ],
)
def test_logs_of_a_watched_training_are_judged(
    netpipe: Netpipe, tmp_path: Path, idle: tuple[float, ...], code: int, kind: str
) -> None:
    """The whole log counts; the load time of the fastest host is not known."""
    paths = logs(tmp_path, *idle)
    found = netpipe("hosts", *paths, "--json")
    assert found.exit_code == code
    judged = document(found, "hosts.1.json")["devices"]["training"]
    assert (judged["slowest"], judged["behind"]) == (str(paths[1]), None)
    assert judged["verdict"]["kind"] == kind
    shown = " ".join(netpipe("hosts", *paths).stdout.split())
    assert f"{kind}: node-1 ({paths[1]})" in shown
    assert ("makes the others wait" in shown) == (code == 1)
    assert "; nothing" not in shown, "a healthy run needs no advice"


def test_logs_that_cannot_be_compared_are_refused(netpipe: Netpipe, tmp_path: Path) -> None:
    """A copy of a log and a measurement are not other hosts of the training."""
    path, *_ = logs(tmp_path, 0.4)
    copy = tmp_path / "copy.jsonl"
    # A long log is merged into fewer windows.
    copy.write_text(
        path.read_text() + "".join(line(make_window(99 + n, host="node-0")) for n in range(30))
    )
    (measured,) = files(tmp_path, make_measurement())
    measured.write_text(json.dumps(json.loads(measured.read_text()), indent=2))
    for other, message in (
        (copy, f"{copy}: content must be written on that host, not copied from {path}"),
        (measured, f"{measured}: file must be a log of netpipe.watch"),
    ):
        found = netpipe("hosts", path, other)
        assert found.exit_code == 2
        assert message in found.stderr


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
    assert device["verdict"]["kind"] == "loader-bound"
