"""Two live sides, and the results that their parent collects."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import replace
from itertools import count
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any, cast

import psutil
import pytest

from netpipe.duets import parent
from netpipe.duets.duet_job import serve_blocks
from netpipe.duets.duet_request import BlockSize, CoreUse, DuetRequest
from netpipe.duets.parent import RemoteTimer, Side, run_duet
from netpipe.errors import SessionError
from netpipe.gate.duets import Duet, estimate_change
from netpipe.gate.metrics import GATED, METRICS, ONCE
from netpipe.jobs.parent import CHILD_COMMAND
from netpipe.jobs.processes import HostCpu
from netpipe.jobs.targets import Factories, name_targets
from tests.duets import duet_targets
from tests.jobs.child_programs import wait_until_gone

FILE = duet_targets.__file__
REQUEST = DuetRequest(budget_s=2.0)


def side(name: str, loader: str, step: str | None = None, **settings: Any) -> Side[Any]:
    """Make a side of targets of the tests."""
    targets = name_targets(loader=f"{FILE}:{loader}", step=step and f"{FILE}:{step}")
    return Side(name, CHILD_COMMAND, replace(REQUEST, targets=targets, **settings))


def run(base: str, now: str, step: str | None = None, **settings: Any) -> Duet:
    """Run a duet of two loaders."""
    return run_duet(side("base", base, step, **settings), side("now", now, step, **settings))


@pytest.fixture
def run_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Callable[..., Duet]]:
    """Return a function that runs a duet of two factories in threads of this process."""
    threads = list[Thread]()

    @contextmanager
    def open_session(
        factories: Any, request: DuetRequest, *_: object, in_own_unix_session: bool
    ) -> Iterator[Any]:
        assert not in_own_unix_session
        # The stacks of a session lie beside its result.
        folder = tmp_path / str(len(threads))
        folder.mkdir()
        asked = replace(request, channel=os.dup(request.channel), result=str(folder / "result"))

        def serve() -> None:
            # The parent closes the connection at the end of the duet.
            with suppress(BrokenPipeError, ConnectionResetError), ExitStack() as closing:
                serve_blocks(asked, Factories(*factories), closing)

        thread = Thread(target=serve)
        thread.start()
        threads.append(thread)
        # Its CPU time is that of this process, which counts anyway.
        yield SimpleNamespace(is_over=lambda: not thread.is_alive(), cpu_s=lambda: 0.0, pid=0)

    def run_factories(base: Any, now: Any, *step: Any, **settings: Any) -> Duet:
        request = replace(REQUEST, **settings)
        return run_duet(Side("base", [base, *step], request), Side("now", [now, *step], request))

    monkeypatch.setattr(parent, "open_session", open_session)
    yield run_factories
    for thread in threads:
        thread.join(30.0)
    assert not any(thread.is_alive() for thread in threads)


def test_a_longer_wait_shows_in_every_slice(
    run_here: Callable[..., Duet], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both wait at the same time, 20 times as long in one; their CPU time is compared too."""
    uses = list[CoreUse]()

    def share_cores_equally(found: Sequence[CoreUse]) -> bool:
        uses.extend(found)
        return True

    monkeypatch.setattr(parent, "_share_cores_equally", share_cores_equally)
    duet = run_here(duet_targets.quick, duet_targets.slow, budget_s=4.0)
    assert not duet.difference
    assert duet.epoch_batches is None  # no epoch has ended
    assert set(duet.base) == set(duet.now) == {each.name for each in GATED["load_s_per_batch"]}
    timed = ("load_s_per_batch", "load_cpu_ratio")
    assert len({len(side[name]) for side in (duet.base, duet.now) for name in timed}) == 1
    base, now = duet.base["load_s_per_batch"], duet.now["load_s_per_batch"]
    assert len(base) >= 2
    assert all(slow > fast for slow, fast in zip(now, base, strict=True))
    assert min(now) >= 0.04
    assert set(duet.base["load_cpu_ratio"]) == {1.0}
    assert [use.helpers[0] for use in uses] == [0, 0]


def test_a_loader_much_slower_than_the_other_is_compared(run_here: Callable[..., Duet]) -> None:
    """A whole block counts even if the other side has given fewer than four batches by then."""
    duet = run_here(duet_targets.quick, duet_targets.very_slow, budget_s=6.0)
    metric = METRICS["load_s_per_batch"]
    pairs = zip(duet.base[metric.name], duet.now[metric.name], strict=True)
    change, _ = estimate_change(
        [metric.to_level(now) - metric.to_level(base) for base, now in pairs]
    )
    assert change > 2


def test_start_and_memory_have_one_value() -> None:
    """One version starts later and keeps memory, a little before and more with every batch."""
    start, memory, growth = (metric.name for metric in ONCE)
    for budget_s in (4.0, 16.0, 64.0):
        duet = run("quick", "growing", budget_s=budget_s)
        # On a busy machine, too few readings fit into the smallest budget.
        if duet.base[growth] and duet.now[growth]:
            break
    assert duet.now[start][0] >= 1.0 > duet.base[start][0]
    assert duet.now[memory][0] > duet.base[memory][0] + 20e6
    assert duet.now[growth][0] > 0.5e6
    assert duet.base[growth][0] < 0.1e6
    assert all(len(side[metric.name]) == 1 for side in (duet.base, duet.now) for metric in ONCE)


@pytest.mark.parametrize("quantity", ["step_s", "train_s_per_step"])
def test_steps_take_turns(run_here: Callable[..., Duet], quantity: str) -> None:
    """Each gated metric of a quantity has a value for each slice, on an emulated device too."""
    quick = duet_targets.quick
    duet = run_here(quick, quick, quantity=quantity, accelerator="emulated:10ms")
    names = {metric.name for metric in GATED[quantity]}
    assert set(duet.base) == set(duet.now) == names
    seconds = duet.now[quantity]
    assert len(seconds) >= 2
    assert min(seconds) > 0.009
    assert not duet.shares_cores


def test_a_step_on_the_cpu_shares_its_cores(run_here: Callable[..., Duet]) -> None:
    """The decision knows that the loader and the step share cores."""
    quick, step = duet_targets.quick, duet_targets.step
    assert run_here(quick, quick, step, quantity="train_s_per_step").shares_cores


def test_short_epochs_are_timed_within_them(run_here: Callable[..., Duet]) -> None:
    """Slices of less than an epoch are compared."""
    duet = run_here(duet_targets.slow_start, duet_targets.slow_start)
    assert duet.now["load_s_per_batch"]


@pytest.mark.parametrize("settings", [{}, {"quantity": "train_s_per_step"}], ids=["load", "train"])
def test_an_epoch_that_holds_no_block_is_described(
    run_here: Callable[..., Duet], settings: dict[str, Any]
) -> None:
    """No slice fits into it, and the shorter epoch is known."""
    one_batch, short_epochs = duet_targets.one_batch, duet_targets.short_epochs
    duet = run_here(one_batch, short_epochs, accelerator="emulated:10ms", **settings)
    assert not duet.now
    assert duet.epoch_batches == 1


def test_the_session_that_fails_is_named() -> None:
    """The error says which version it was, and what its loader raised."""
    waiting = Side("base", [sys.executable, "-c", "import time; time.sleep(1000)"], REQUEST)
    with pytest.raises(SessionError, match=r"session of now failed: .*disk gone"):
        run_duet(waiting, side("now", "failing"))


def test_a_version_that_knows_no_duets_is_named() -> None:
    """A process of an older netpipe ends without a description, which is not a hang."""
    old = Side(
        "v1", [sys.executable, "-c", "print('unknown session'); raise SystemExit(4)"], REQUEST
    )
    with pytest.raises(SessionError, match=r"(?s)session of v1 failed: .*code 4.*unknown session"):
        run_duet(old, side("now", "quick"))


def test_one_that_ends_early_without_an_error_is_named() -> None:
    """The duet does not go on without that side."""
    program = (
        "import json, os; file = json.loads(os.environ['NETPIPE_SESSION'])['result']; "
        "open(file, 'w').write(json.dumps({'schema': 'netpipe.session/1', 'duet': {}}))"
    )
    early = Side("v1", [sys.executable, "-c", program], REQUEST)
    with pytest.raises(SessionError, match="session of v1 failed: it ended before"):
        run_duet(early, side("now", "quick"))


def test_sides_keep_freed_memory() -> None:
    """This loader fails if it must map its memory anew for every batch."""
    run("freeing", "freeing")


def test_nothing_outlives_a_killed_parent() -> None:
    """Both sides end when the parent is gone."""
    program = (
        "from tests.duets.test_parent import side, run_duet\n"
        "run_duet(side('base', 'quick', budget_s=60.0), side('now', 'quick', budget_s=60.0))\n"
    )
    with subprocess.Popen([sys.executable, "-c", program]) as process:
        children: list[psutil.Process] = []
        while len(children) < 2:
            time.sleep(0.05)
            children = psutil.Process(process.pid).children()
        process.send_signal(signal.SIGKILL)
    for child in children:
        wait_until_gone(child.pid)


class _RemoteTimer:
    """A side with prepared answers, which notes its orders."""

    def __init__(self, name: str, told: list[str], *answers: dict[str, Any]) -> None:
        self._name, self._told, self._answers = name, told, list(answers)
        self._is_late = False
        self.session = SimpleNamespace(pid=0, cpu_s=lambda: 0.0)

    def send(self, size: BlockSize) -> None:
        """Note the order."""
        self._told.append(f"{self._name} {size.timed}")

    def receive(self) -> dict[str, Any] | None:
        """Give the next answer; the first time, it is not there yet."""
        if not self._is_late:
            self._is_late = True
            return None
        self._told.append(f"{self._name} answers")
        return self._answers.pop(0)


def timers(told: list[str], base: dict[str, Any], now: dict[str, Any]) -> Any:
    """Make two sides with an answer each."""
    return [cast(Any, _RemoteTimer("base", told, base)), cast(Any, _RemoteTimer("now", told, now))]


def test_both_sides_run_on_the_same_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their workers are bound before each block, because a loader may have been started again."""
    bound: list[tuple[int, ...]] = []
    monkeypatch.setattr(parent, "bind_workers_alike", lambda *pids: bound.append(pids))
    block = {"load_cpu_ratio": 1.0, "stamps_s": [0.0, 1.0, 2.0]}
    sides = timers([], dict(block), dict(block))
    sides[1].session.pid = 7
    parent._pull(sides, BlockSize(2), 0, together=True)
    assert bound == [(0, 7)]


def test_the_loaders_time_is_that_in_which_both_pull() -> None:
    """Batches that one side pulls alone do not count."""
    told: list[str] = []
    base = {"load_cpu_ratio": 0.002, "stamps_s": [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]}
    now = {"load_cpu_ratio": 0.003, "stamps_s": [0.5, 2.0, 3.5, 5.0, 5.1, 5.2]}
    before, after = parent._pull(timers(told, base, now), BlockSize(6), 0, together=True)
    assert before == {"load_cpu_ratio": 1.0, "load_s_per_batch": 1.0}
    assert after == {"load_cpu_ratio": 1.5, "load_s_per_batch": 1.5}
    assert told == ["base 6", "now 6", "base answers", "now answers"]


def test_loaders_that_pull_in_turns_are_timed_whole() -> None:
    """All batches after the skipped ones count."""
    told: list[str] = []
    base = {"load_cpu_ratio": 0.002, "stamps_s": [0.0, 0.5, 1.5, 2.5]}
    now = {"load_cpu_ratio": 0.003, "stamps_s": [3.0, 3.5, 5.0, 6.5]}
    size = BlockSize(2, skipped=1)
    before, after = parent._pull(timers(told, base, now), size, 0, together=False)
    assert before == {"load_cpu_ratio": 1.0, "load_s_per_batch": 1.0}
    assert after == {"load_cpu_ratio": 1.5, "load_s_per_batch": 1.5}
    assert told == ["base 2", "base answers", "now 2", "now answers"]
    assert parent._pull(timers(told, base, {}), size, 0, together=False)[1] == {}


@pytest.mark.parametrize(
    ("base", "now", "is_together"),
    [
        (CoreUse((0, 1), 1.1, rests=True), CoreUse((0, 1), 1.1, rests=True), True),
        (CoreUse((0, 1), 1.1, rests=True), CoreUse((0, 4), 1.1, rests=True), False),
        (CoreUse((0, 4), 0.7, rests=True), CoreUse((4, 0), 0.6, rests=True), False),
        (CoreUse((0, 1), 0.4, rests=True), CoreUse((0, 4), 0.5, rests=True), True),
        (CoreUse((0, 1), 1.1, rests=False), CoreUse((0, 4), 1.1, rests=True), True),
        (None, CoreUse((0, 4), 2.0, rests=True), True),
    ],
    ids=[
        "alike", "more threads", "workers for threads", "cores to spare", "never at rest",
        "an older netpipe",
    ],
)  # fmt: skip
def test_loaders_that_compete_unequally_pull_in_turns(
    monkeypatch: pytest.MonkeyPatch,
    base: CoreUse | None,
    now: CoreUse | None,
    *,
    is_together: bool,
) -> None:
    """On two cores, loaders with different numbers of threads do not pull at the same time."""
    told: list[str] = []
    block = {"load_cpu_ratio": 0.002, "stamps_s": [0.0, 1.0, 2.0, 3.0]}
    about = {"fingerprint": "", "shares_cores": False, "size": (2, 0)}
    sides = [
        _RemoteTimer(
            name,
            told,
            {**about, **({"core_use": tuple(use)} if use else {})},
            {**block},
            {**block},
        )
        for name, use in (("base", base), ("now", now))
    ]
    monkeypatch.setattr(parent, "this_host", lambda: SimpleNamespace(cores=2))
    monkeypatch.setattr(parent, "open_sides", lambda _: nullcontext(sides))
    clock = SimpleNamespace(monotonic=count().__next__, process_time=time.process_time)
    monkeypatch.setattr(parent, "time", clock)
    duet = run_duet(side("base", "quick"), side("now", "quick"))
    assert duet.now["load_s_per_batch"] == (1.0, 1.0)
    assert (told[2:4] == ["base 2", "now 2"]) is is_together


def test_blocks_that_did_not_overlap_do_not_count() -> None:
    """One side has started its loader again while the other one pulled."""
    base = {"load_cpu_ratio": 0.002, "stamps_s": [0.0, 1.0, 2.0]}
    now = {"load_cpu_ratio": 0.002, "stamps_s": [2.5, 3.5, 4.5]}
    assert parent._pull(timers([], base, now), BlockSize(3), 0, together=True) == ({}, {})


def test_one_that_is_much_faster_counts_whole() -> None:
    """A fast side has given its block before the other one has given the skipped batches."""
    base = {"load_cpu_ratio": 0.002, "stamps_s": [0.0, 0.01, 0.02, 0.03]}
    now = {"load_cpu_ratio": 0.002, "stamps_s": [0.0, 1.0, 2.0, 3.0]}
    sides, size = timers([], base, now), BlockSize(2, skipped=1)
    before, after = parent._pull(sides, size, 0, together=True)
    assert before["load_s_per_batch"] == pytest.approx(0.01)
    assert after["load_s_per_batch"] == pytest.approx(1.0)


def test_who_is_told_first_changes() -> None:
    """The order alternates between slices."""
    told: list[str] = []
    parent.take_turns(timers(told, {"step_s": 1.0}, {"step_s": 2.0}), BlockSize(3), 1)
    assert told == ["now 3", "now answers", "base 3", "base answers"]


class _Machine:
    """A machine whose other programs take `shares` of it, one value for each second."""

    def __init__(self, shares: Sequence[float]) -> None:
        self._shares, self._halves, self.waited = shares, 0, 0

    def replace_sides(self, monkeypatch: pytest.MonkeyPatch, *uses: CoreUse) -> None:
        """Take the place of both sides and of the clock."""
        about = {"fingerprint": "", "shares_cores": True, "size": (1,)}
        described = [{**about, "core_use": tuple(use)} for use in uses] or [about, about]
        monkeypatch.setattr(parent, "open_sides", lambda _: nullcontext([self]))
        monkeypatch.setattr(parent, "receive_all", lambda _: described)
        monkeypatch.setattr(parent, "_read_host_cpu", self.read)
        monkeypatch.setattr(parent, "take_turns", self.run_slice)
        monkeypatch.setattr(parent, "_pull", self.run_slice)
        monkeypatch.setattr(parent, "time", self)

    def monotonic(self) -> float:
        """Return the seconds since the start."""
        return self._halves / 2

    def receive(self) -> None:
        """Wait for half a second."""
        self._halves += 1
        self.waited += 1

    def run_slice(self, *_: object, **__: object) -> tuple[dict[str, Any], dict[str, Any]]:
        """Take a second; the value of the slice is when it began."""
        began_s = self.monotonic()
        self._halves += 2
        return {"step_s": 1.0}, {"step_s": began_s}

    def read(self, _: object) -> HostCpu:
        """Read the CPU time since the start."""
        halves = range(self._halves)
        busy_s = sum(self._shares[half // 2 % len(self._shares)] for half in halves) / 2
        return HostCpu(busy_s, self.monotonic(), 0.0)


@pytest.mark.parametrize(
    ("shares", "began_s", "waits_s"),
    [
        ([0.0], range(11), 0.0),
        ([0.09], range(11), 0.0),
        ([0.5], range(11), 0.0),
        ([0.5] * 9 + [0.0] * 99, [*range(11), 11.5, 13.0, 14.5], 1.5),
        ([0.0] + [0.5] * 11 + [0.0] * 99, [*range(11), 12.5, 14.0, 15.5, 17.0], 3.0),
        ([0.0] + [0.5] * 21 + [0.0] * 99, range(11), 10.0),
        ([0.0, 0.5, 0.5], [*range(11), *(12.5 + 3 * each for each in range(6))], 13.0),
        ([0.0] * 5 + [0.5] * 99, range(11), 0.0),
    ],
    ids=[
        "quiet", "nearly quiet", "always busy", "quiet late", "quiet after a wait",
        "quiet too late", "quiet moments too short", "busy after five slices",
    ],
)  # fmt: skip
def test_a_duet_with_few_quiet_slices_waits_for_quiet_moments(
    monkeypatch: pytest.MonkeyPatch,
    shares: Sequence[float],
    began_s: Sequence[float],
    waits_s: float,
) -> None:
    """After its own 10 s it waits for up to 10 s at a time, until 30 s are over."""
    machine = _Machine(shares)
    machine.replace_sides(monkeypatch)
    request = replace(REQUEST, budget_s=20.0, quantity="step_s")
    duet = run_duet(Side("base", [], request), Side("now", [], request))
    assert duet.now["step_s"] == pytest.approx(tuple(began_s))
    assert machine.waited / 2 == waits_s
    assert len(duet.busy_elsewhere_fraction) == len(duet.now["step_s"])


@pytest.mark.parametrize(("rests", "waits"), [((True, True), True), ((True, False), False)])
def test_a_loader_that_goes_on_loading_is_not_left_waiting(
    monkeypatch: pytest.MonkeyPatch, rests: Sequence[bool], *, waits: bool
) -> None:
    """Its buffers would hold more batches than before other blocks."""
    machine = _Machine([0.0] + [0.5] * 99)
    machine.replace_sides(monkeypatch, *(CoreUse((0, 1), 1.0, rests=each) for each in rests))
    run_duet(Side("base", [], DuetRequest()), Side("now", [], DuetRequest()))
    assert (machine.waited > 0) is waits


@pytest.mark.parametrize("quantity", ["load_s_per_batch", "train_s_per_step"])
def test_a_loader_is_not_left_waiting_unless_it_is_known_to_rest(
    monkeypatch: pytest.MonkeyPatch, quantity: str
) -> None:
    """An older netpipe does not say so, and sides that train do not either."""
    machine = _Machine([0.0] + [0.5] * 99)
    machine.replace_sides(monkeypatch)
    request = DuetRequest(quantity=quantity)
    run_duet(Side("base", [], request), Side("now", [], request))
    assert not machine.waited


def test_the_sides_are_no_other_programs() -> None:
    """Their CPU time and that of this process are known."""
    sides = [
        RemoteTimer(name, cast(Any, SimpleNamespace(cpu_s=lambda: 1e6)), cast(Any, None))
        for name in ("base", "now")
    ]
    assert parent._read_host_cpu(sides).own_s == pytest.approx(2e6 + time.process_time())
