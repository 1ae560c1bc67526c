"""What a session does to a loader."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from netpipe.clock import MonotonicClock
from netpipe.diagnosis import single_thread_run, thread_scaling, whole_loader
from netpipe.diagnosis.blocks import FirstLook
from netpipe.diagnosis.cost_model import Parts
from netpipe.diagnosis.investigation import FindingOut
from netpipe.diagnosis.loader_variants import serial
from netpipe.diagnosis.prediction import Known
from netpipe.diagnosis.schedule import Schedule, longest_s
from netpipe.diagnosis.turns import SideBlocks, require_side
from netpipe.diagnosis.what_if import Change
from netpipe.diagnosis.whole_loader import Whole
from netpipe.errors import SessionError
from netpipe.session.heartbeat import UNWATCHED
from tests.diagnosis import loaders
from tests.diagnosis.examples import block, interval, turns
from tests.fakes import FakeClock


def looking(loader: Any, cores: int = 2) -> FindingOut:
    """Return what looks into a loader."""
    return FindingOut(loader, "a:b", None, cores, 1.0, MonotonicClock(), UNWATCHED)


def whole_of(loader: Any, cores: int = 2) -> Whole:
    """Return a loader to be measured beside variants of it."""
    lane, graph = serial(loader)
    schedule = Schedule(MonotonicClock(), 1.0, UNWATCHED)
    return Whole(
        loader, graph, cores, lane is not loader, FirstLook(0.0, 0.01), schedule, UNWATCHED
    )


def sides(monkeypatch: pytest.MonkeyPatch, loader: Any, cores: int = 2) -> set[str]:
    """Return which sides of the whole loader are measured."""
    asked: list[str] = []

    def measure_in_turns(measured: Any, *_: object) -> SideBlocks:
        asked.extend(measured)
        return turns(as_it_is=0.01)

    monkeypatch.setattr(whole_loader, "measure_in_turns", measure_in_turns)
    whole_of(loader, cores).turns()
    return set(asked)


def test_a_grain_loader_is_tried_with_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has none: one worker tells what more would give."""
    asked = sides(monkeypatch, loaders.plain)
    assert asked == {"as-it-is", "one-worker", "half-the-cores"}


def test_workers_are_tried_with_nothing_to_send(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has workers: what they send may be what limits."""
    asked = sides(monkeypatch, loaders.with_worker)
    assert asked == {"as-it-is", "tiny-payload", "half-the-cores"}
    assert looking(loaders.with_worker)._sender() == "ProcessPrefetch"


def test_plain_python_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither workers nor a payload can be given to it; one core has no half."""
    assert sides(monkeypatch, loaders.raising_late, cores=1) == {"as-it-is"}
    tried = whole_of(loaders.raising_late).tried(None, interval(0.01), {})
    assert tried[1].startswith("only a Grain pipeline")


def test_what_promises_nothing_is_not_tried() -> None:
    """The reason is told."""
    assert whole_of(loaders.plain).tried(None, interval(0.01), {}) == (
        None,
        "no change that can be tried promises anything",
    )


def test_a_loader_that_fails_as_it_is_ends_it() -> None:
    """All else is held against it: without it there is no diagnosis, and the reason is told."""
    ends = iter([iter([1, 2, 3]), iter([4])])

    def loader() -> Iterator[int]:
        yield from next(ends)
        raise OSError("disk gone")

    with pytest.raises(SessionError, match="disk gone"):
        require_side("as-it-is", SideBlocks((), {"as-it-is": "OSError: disk gone"}))
    with pytest.raises(SessionError, match="after 3 batches: OSError: disk gone"):
        looking(loader).findings()


def test_turns_that_have_what_counts_are_given_back() -> None:
    """Others may have failed."""
    made = turns(as_it_is=0.01)
    assert require_side("as-it-is", made) is made


class Slow:
    """A loader on a clock that tests hold: each start and each batch takes its time.

    Args:
        clock: Moved on by both.
        start_s: Seconds of a start.
        batch_s: Seconds of a batch.
    """

    def __init__(self, clock: FakeClock, start_s: float, batch_s: float) -> None:
        self._clock, self._start_s, self._batch_s = clock, start_s, batch_s

    def __call__(self) -> Iterator[int]:
        """Start."""
        self._clock.sleep(self._start_s)
        while True:
            self._clock.sleep(self._batch_s)
            yield 1


def on_a_fake_clock(
    monkeypatch: pytest.MonkeyPatch, start_s: float, batch_s: float, budget_s: float
) -> tuple[Any, float]:
    """Diagnose a slow loader; return what was found, and the seconds since its first batches."""
    monkeypatch.setattr(
        thread_scaling, "SecondProcess", lambda *_: (_ for _ in ()).throw(OSError("none"))
    )
    clock = FakeClock()
    loader = Slow(clock, start_s, batch_s)
    found = FindingOut(loader, "a:b", None, 2, budget_s, clock, UNWATCHED).findings()
    return found, clock() - start_s - 4 * batch_s


@pytest.mark.parametrize("budget_s", [5.0, 10.0, 60.0])
@pytest.mark.parametrize(("start_s", "batch_s"), [(0.0, 0.01), (5.0, 0.1), (20.0, 0.5), (2.0, 3.0)])
def test_a_diagnosis_keeps_its_limit(
    monkeypatch: pytest.MonkeyPatch, start_s: float, batch_s: float, budget_s: float
) -> None:
    """Slow starts and slow batches count: at most what was begun in time ends behind it."""
    found, took_s = on_a_fake_clock(monkeypatch, start_s, batch_s, budget_s)
    assert took_s <= longest_s(budget_s) + start_s + 3 * batch_s
    assert found.load_s_per_batch.median == pytest.approx(batch_s, rel=0.01)


def test_what_is_skipped_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """A loader that takes 20 s to start leaves no time to do it again and again."""
    found, _ = on_a_fake_clock(monkeypatch, 20.0, 0.1, 5.0)
    (remark,) = (one for one in found.remarks if one.startswith("not tried for lack of time: "))
    assert "the loader on 1 of 2 cores" in remark
    assert remark.endswith("give a larger --budget")


def test_nothing_is_skipped_where_there_is_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A quick loader has no such remark."""
    assert on_a_fake_clock(monkeypatch, 0.1, 0.01, 10.0)[0].remarks == ()


def test_the_longest_time_is_a_function_of_the_budget() -> None:
    """Twice the budget and 20 s."""
    assert longest_s(10.0) == 40.0


@pytest.mark.parametrize(("lane_s", "proposes"), [(0.010, True), (0.0395, False), (0.060, False)])
def test_reading_without_threads_is_proposed_and_tried(
    monkeypatch: pytest.MonkeyPatch, lane_s: float, proposes: bool
) -> None:
    """Only where the single-thread run is clearly faster than the loader as it is."""

    def measure_in_turns(measured: Any, *_: object) -> SideBlocks:
        rounds = [{name: block(0.04 + 0.001 * n) for name in measured} for n in range(3)]
        return SideBlocks(tuple(rounds))

    made = turns(lane=lane_s, two_threads=lane_s, two_processes=lane_s)
    monkeypatch.setattr(single_thread_run, "lanes_in_turns", lambda *_: made)
    monkeypatch.setattr(whole_loader, "measure_in_turns", measure_in_turns)
    found = looking(loaders.data_loader).findings()
    assert any(one.kind == "no-threads" for one in found.what_if) is proposes
    assert (found.verified is not None and found.verified.kind == "no-threads") is proposes


@pytest.mark.parametrize(
    ("loader", "proposes"),
    [
        (loaders.data_loader, True),
        (lambda: loaders.data_loader(1), False),
        (loaders.plain, False),
    ],
    ids=["threads", "threads-in-a-worker", "no-threads"],
)
def test_only_threads_of_the_training_process_are_given_up(loader: Any, proposes: bool) -> None:
    """Where a lane beats workers, or a loader without threads, it shows something else."""
    known = Known(Parts((), 0, 0, 2), (0.04,))
    found = looking(loader)._one_thread(known, turns(lane=0.01), turns(as_it_is=0.04))
    assert (found is not None) is proposes


def test_a_change_that_does_not_fit_is_not_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three rounds of two sides that start in 5 s take longer than the 22 s of a budget of 1 s."""
    monkeypatch.setattr(whole_loader, "measure_in_turns", None)
    change = Change("2 workers", "workers", lambda parts: parts, Known(Parts((), 0, 0, 2), ()), 2)
    slow = replace(whole_of(loaders.plain), look=FirstLook(5.0, 0.01))
    assert slow.tried(change, interval(0.01), {}) == (
        None,
        "2 workers could not be tried: no time was left",
    )
