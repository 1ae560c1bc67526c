"""`netpipe prepare --runner ray`, on two nodes."""

import os
import signal
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from netpipe.errors import InputError
from netpipe.workload.preparation.prepare import prepare
from netpipe.workload.preparation.ray_runner import run_on_ray
from tests.command import Netpipe
from tests.ray_cluster.conftest import contents
from tests.ray_cluster.held import HoldingRunner, kill_node, once_begun
from tests.workload.factories import as_table, make_pings


def _running() -> list[str]:
    """The command lines of tasks of Ray that run below this process."""
    lines = list[str]()
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):  # It has ended.
            lines.append(" ".join(process.cmdline()))
    return [line for line in lines if line.startswith("ray::_run")]


def _all_end() -> bool:
    """Whether no task runs any more, after some time for Ray to kill those that do."""
    end_s = time.monotonic() + 60
    while _running() and time.monotonic() < end_s:
        time.sleep(0.05)
    return not _running()


def _shared_memory() -> set[str]:
    """The files of object stores."""
    return {path.name for path in Path("/dev/shm").iterdir() if "plasma" in path.name}


def test_the_command_makes_the_same_bytes(
    cluster: Any, second: Any, measured: Path, expected: dict[str, bytes], tmp_path: Path,
    netpipe: Netpipe,
) -> None:  # fmt: skip
    """Two nodes write the same files as this process, and leave nothing beside them."""
    assert second.node_id != cluster.head_node.node_id
    out = tmp_path / "out"
    done = netpipe(
        "prepare", measured, "--out", out, "--shards", 3,
        "--runner", "ray", "--address", cluster.address,
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    assert contents(out) == expected
    assert list(tmp_path.iterdir()) == [out]
    assert _all_end()


def test_a_node_is_killed(
    cluster: Any, second: Any, measured: Path, expected: dict[str, bytes], tmp_path: Path
) -> None:
    """A node that dies with a task in the middle changes no byte, and leaves nothing behind."""
    shared, killed = _shared_memory(), list[psutil.Process]()
    seen: list[tuple[int, int, str]] = []

    def kill(worker: psutil.Process) -> None:
        killed.append(worker)
        kill_node(worker)

    out, begun = tmp_path / "out", tmp_path / "begun"
    runner = HoldingRunner(cluster.address, second.node_id, begun)
    with once_begun(begun, kill):
        prepare([measured], out, shards=3, runner=runner, progress=lambda *now: seen.append(now))
    assert killed
    assert contents(out) == expected
    assert sorted(tmp_path.iterdir()) == [begun, out]
    assert seen == sorted(seen, key=lambda now: now[0])
    assert seen[-1][0] == seen[-1][1]
    assert not psutil.pid_exists(killed[0].pid)
    assert _all_end()
    assert _shared_memory() <= shared


def test_an_error_ends_the_other_tasks(
    cluster: Any, second: Any, measured: Path, tmp_path: Path
) -> None:
    """The error of a task is the local one, and a task that hangs elsewhere is ended."""
    table = as_table(make_pings(900, seed=0), probe=1)
    bad = table.set_column(4, "rtt", pa.array([float("nan")] * 900, pa.float32()))
    pq.write_table(bad, tmp_path / "bad.parquet")
    sources, out, begun = [tmp_path / "bad.parquet", measured], tmp_path / "out", tmp_path / "begun"
    with pytest.raises(InputError) as local:
        prepare(sources, out)
    with pytest.raises(InputError) as remote:
        prepare(sources, out, runner=HoldingRunner(cluster.address, second.node_id, begun))
    assert str(remote.value) == str(local.value)
    assert not out.exists()
    assert _all_end()


def test_an_interrupt_ends_the_tasks(
    cluster: Any, second: Any, measured: Path, tmp_path: Path, expected: dict[str, bytes]
) -> None:
    """Ctrl-C ends the tasks on all nodes, and the next run continues."""
    out, begun = tmp_path / "out", tmp_path / "begun"
    runner = HoldingRunner(cluster.address, second.node_id, begun)
    with (
        once_begun(begun, lambda _: os.kill(os.getpid(), signal.SIGINT)),
        pytest.raises(KeyboardInterrupt),
    ):
        prepare([measured], out, shards=3, runner=runner)
    assert _all_end()
    assert not out.exists()
    prepare([measured], out, shards=3, runner=partial(run_on_ray, cluster.address))
    assert contents(out) == expected
    assert sorted(tmp_path.iterdir()) == [begun, out]


def test_no_cluster_answers(measured: Path, tmp_path: Path, cluster: Any) -> None:
    """An address without a cluster is one line, and no output is made."""
    assert cluster
    with pytest.raises(InputError, match=r"^--address 127\.0\.0\.1:9: .*found .*refused\. Start"):
        prepare([measured], tmp_path / "out", runner=partial(run_on_ray, "127.0.0.1:9"))
    assert not (tmp_path / "out").exists()
