"""A second process that pulls from the same loader."""

import threading
from collections.abc import Callable, Iterator
from functools import partial
from multiprocessing import active_children, resource_tracker
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import psutil
import pytest

from netpipe.clock import Clock
from netpipe.diagnosis.experiments import second_process, single_thread_run, turns
from netpipe.diagnosis.experiments.pulling_threads import FirstLook, PullCost
from netpipe.diagnosis.experiments.second_process import SecondProcess
from netpipe.diagnosis.experiments.single_thread_run import SingleThreadRun, pull_beside
from netpipe.diagnosis.experiments.stage_times import StageTime
from netpipe.diagnosis.experiments.turns import Schedule, Side, SideBlocks
from netpipe.errors import SessionError
from netpipe.grain_access.loader_variants import single_thread_variant
from netpipe.jobs.heartbeat import UNWATCHED
from netpipe.jobs.targets import Target
from netpipe.measuring.loader_puller import block_s
from tests.diagnosis import loaders
from tests.diagnosis.examples import block, node, stage_time

TARGET = "tests.diagnosis.loaders:{}"
# A busy machine starts a process slowly.
LIMIT_S = 600.0


def second_process_of(loader: str) -> SecondProcess:
    """Return a second process that pulls from one of the loaders."""
    return SecondProcess(Target.parse(TARGET.format(loader)), LIMIT_S)


@pytest.fixture(autouse=True)
def _nothing_is_left() -> Iterator[None]:
    """Check that no test leaves a process or an open file."""
    # The resource tracker lives as long as this process.
    resource_tracker.ensure_running()
    # Ignore leftover workers of earlier tests.
    children, descriptors = set(active_children()), psutil.Process().num_fds()
    yield
    assert set(active_children()) <= children
    assert psutil.Process().num_fds() <= descriptors


def test_it_pulls_on_request() -> None:
    """The process pulls repeatedly, and output of the user's code does not disturb it."""
    with second_process_of("printing") as second:
        pid = second._process.pid or 0
        for _ in range(2):
            pulled = second.start_pulling(0.0)()
            assert pulled.batches == 2
            assert pulled.wall_s > 0
    assert not psutil.pid_exists(pid)


def test_the_longest_block_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other process pulls longer than requested if batches come in bursts."""
    limits_s: list[float] = []
    second = SecondProcess(Target("unused", ""), LIMIT_S)
    monkeypatch.setattr(second, "_pipe", Mock(), raising=False)
    monkeypatch.setattr(second, "_receive", limits_s.append)
    second.start_pulling(3.0)()
    assert limits_s[0] > block_s(3.0, longest_wait_s=60.0, mean_wait_s=1.0)


def test_a_result_that_nobody_waits_for_is_dropped(capfd: pytest.CaptureFixture[str]) -> None:
    """The process ends without an error."""
    with second_process_of("plain") as second:
        process = second._process
        second.start_pulling(0.0)
        assert second._pipe.poll(30.0)
        second._pipe.close()
        process.join(30.0)
        assert process.exitcode == 0
    assert "Traceback" not in capfd.readouterr().err


def test_the_users_module_may_set_the_start_method(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process may set the method once, so netpipe leaves it unset."""
    module = tmp_path / "sets_start_method.py"
    module.write_text(
        "import multiprocessing as mp\nmp.set_start_method('fork')\nmake = [1].copy\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    with SecondProcess(Target.parse("sets_start_method:make"), LIMIT_S) as second:
        assert second.start_pulling(0.0)().batches == 2


@pytest.mark.parametrize(
    ("loader", "why"),
    [
        ("raising", r"OSError: no \[bold\]data\[/x\] here$"),
        ("empty", r"loader\(\) gave no batch"),
        ("nothing_of_the_kind", r"tests\.diagnosis\.loaders: name must"),
    ],
)
def test_a_loader_that_does_not_start_gives_its_error(loader: str, why: str) -> None:
    """The error is one line, and the process is ended."""
    with pytest.raises(SessionError, match=f"^a second process .* failed: {why}"):
        second_process_of(loader).__enter__()


def test_a_loader_that_fails_later_gives_its_error() -> None:
    """The function that waits for the result raises the error."""
    failed = "failed: .* 5 batches: OSError: disk gone"
    with (
        second_process_of("raising_late") as second,
        pytest.raises(SessionError, match=failed),
    ):
        second.start_pulling(1e5)()


def test_a_process_that_has_ended_is_an_error() -> None:
    """A request succeeds, and waiting for its result fails."""
    with second_process_of("plain") as second:
        psutil.Process(second._process.pid).kill()
        second._process.join()
        with pytest.raises(SessionError, match=r"ended$"):
            second.start_pulling(0.0)()


def test_a_process_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process does not continue beside the other measurements."""
    monkeypatch.setattr(second_process, "_GRACE_S", 0.1)
    with second_process_of("plain") as second:
        pid = second._process.pid or 0
        psutil.Process(pid).suspend()
        with pytest.raises(SessionError, match=r"0\.1 s$"):
            second.start_pulling(0.0)()
        assert not psutil.pid_exists(pid)


def turns_of(loader: Callable[[], Any], name: str, *times: StageTime) -> SideBlocks:
    """Return the single-thread runs of a loader in turns, as briefly as possible."""
    single_thread, graph = single_thread_variant(loader)
    no_time = Schedule(Clock(), 0.0, UNWATCHED, Clock()())
    run = SingleThreadRun(
        single_thread,
        Target.parse(TARGET.format(name)),
        graph,
        True,
        FirstLook(0.0, 0.0),
        no_time,
        UNWATCHED,
        [],
    )
    return run.measure_scaling(times)


@pytest.fixture
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(single_thread_run, "_MIN_BLOCK_S", 0.01)
    monkeypatch.setattr(turns, "max_duration_s", lambda _: 1e6)


@pytest.mark.usefixtures("_short")
def test_all_single_thread_runs_are_measured() -> None:
    """No pulling thread is left."""
    found = turns_of(loaders.slow, "slow", stage_time("Map", 0.01, node=node(2, "Map")))
    assert found.has(Side.SINGLE_THREAD, Side.TWO_THREADS, Side.TWO_PROCESSES, Side.WITHOUT_STAGE)
    assert found.failures == {}
    assert not [thread for thread in threading.enumerate() if "netpipe-pulling" in thread.name]


@pytest.mark.usefixtures("_short")
def test_other_runs_go_on_without_a_second_process() -> None:
    """The error of the second process belongs to its own side."""
    found = turns_of(loaders.plain, "raising")
    assert found.has(Side.SINGLE_THREAD, Side.TWO_THREADS)
    assert not found.has(Side.TWO_PROCESSES)
    assert "OSError" in found.failures[Side.TWO_PROCESSES]


def test_rates_of_both_processes_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """10 and 30 batches a second are 40; the CPU time is that of this process."""
    monkeypatch.setattr(single_thread_run, "measure_block", lambda *_: block(0.1, 0.08))
    other = PullCost(30, 1.0)
    second: Any = type("Second", (), {"start_pulling": lambda *_: lambda: other})()
    found = pull_beside(partial(lambda: None), second, 1.0)  # type: ignore[arg-type]
    assert found.s_per_batch == pytest.approx(1 / 40)
    assert found.trainer_cpu_s_per_batch == 0.08
