"""The runner on Ray, without Ray; tests/ray_cluster has the rest."""

from pathlib import Path

import pytest

from netpipe.errors import InputError
from netpipe.workload.formats.places import Place
from netpipe.workload.preparation import ray_runner
from netpipe.workload.preparation.tasks import Advance
from tests.command import Netpipe


class _Task:
    """A task that notes that it was run."""

    def __init__(self, work: Path) -> None:
        self.work = Place.local(work)
        self.ran = False

    def run(self, advance: Advance) -> None:
        """Note it."""
        advance(1)
        self.ran = True


def test_ray_is_not_installed(
    parquet: Path, tmp_path: Path, netpipe: Netpipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without Ray the error is one line that says how to install it, and nothing is made."""
    monkeypatch.setattr("netpipe.cli.data.find_spec", lambda _: None)
    done = netpipe("prepare", parquet, "--out", tmp_path / "out", "--runner", "ray")
    assert done.exit_code == 2
    message = "netpipe: --runner ray: package ray must be installed; found none. "
    assert done.output == f"{message}Install it: pip install 'netpipe[ray]'\n"
    assert list(tmp_path.iterdir()) == []


def test_a_machine_without_the_work_folder_refuses(tmp_path: Path) -> None:
    """A task does nothing unless the folder is the one in which this run left a mark."""
    task = _Task(tmp_path)
    with pytest.raises(InputError, match=r"work folder must be shared by all machines.*--scratch"):
        ray_runner._run(task, task.work / "mark")  # type: ignore[arg-type]
    assert not task.ran
    (tmp_path / "mark").touch()
    ray_runner._run(task, task.work / "mark")  # type: ignore[arg-type]
    assert task.ran


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--address", "host:1"], "--address: --runner must be ray with it; found local"),
        (["--runner", "ray", "--workers", 2], "--workers: --runner must be local with it; found"),
    ],
)
def test_options_of_the_other_runner(
    parquet: Path, tmp_path: Path, netpipe: Netpipe, options: list[object], message: str
) -> None:
    """An option that would do nothing is refused."""
    done = netpipe("prepare", parquet, "--out", tmp_path / "out", *options)
    assert done.exit_code == 2
    assert message in done.output
