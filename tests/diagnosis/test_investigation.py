"""The measurements of a session, and their time limits."""

from collections.abc import Iterator
from typing import Any

import pytest

from netpipe.clock import Clock
from netpipe.diagnosis import investigation
from netpipe.diagnosis.experiments import single_thread_run
from netpipe.diagnosis.experiments.pulling_threads import FirstLook
from netpipe.diagnosis.experiments.turns import (
    NO_TIME,
    Schedule,
    SideBlocks,
    max_duration_s,
    require_side,
)
from netpipe.diagnosis.investigation import Investigation
from netpipe.diagnosis.what_if import MAX_STAGES, Change, find_faster_alone
from netpipe.errors import SessionError
from netpipe.jobs.heartbeat import UNWATCHED
from tests.diagnosis import loaders
from tests.diagnosis.examples import (
    block,
    evidence,
    in_rounds,
    investigation_request,
    stage_time,
    turns,
)
from tests.fakes import FakeClock


def investigation_of(loader: Any, start_s: float = 0.0) -> Investigation:
    """Return an investigation after its first look."""
    made = Investigation(loader, investigation_request(), 2, Clock(), UNWATCHED)
    made._look = FirstLook(start_s, 0.01)
    made._schedule = Schedule(Clock(), 1.0, UNWATCHED, Clock()())
    return made


@pytest.mark.parametrize(
    ("loader", "sides"),
    [
        (loaders.plain, {"unmodified", "one-worker"}),
        (loaders.with_worker, {"unmodified", "tiny-payload"}),
        (loaders.raising_late, {"unmodified"}),
    ],
)
def test_variants_fit_the_loader(
    monkeypatch: pytest.MonkeyPatch, loader: Any, sides: set[str]
) -> None:
    """One worker is added only if there is none."""
    asked: list[str] = []

    def measure_in_turns(measured: Any, *_: object) -> SideBlocks:
        asked.extend(measured)
        return turns(unmodified=0.01)

    monkeypatch.setattr(investigation, "measure_in_turns", measure_in_turns)
    made = investigation_of(loader)
    made._measure_variants(can_add_workers=made._single_thread is not loader)
    assert set(asked) == sides


def test_only_the_costliest_stages_are_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Making a loader may take seconds, and no change leaves out another stage."""
    asked = list[int]()
    monkeypatch.setattr(investigation, "without_stage", lambda _, stage: asked.append(stage))
    made = investigation_of(loaders.plain)
    nodes = [node for node in made._graph.nodes if node.kind != "Batch"]
    nodes *= 2  # more stages than can be left out
    made._build_ablated([stage_time(str(node), 0.01, node=node) for node in nodes])
    assert asked == [node.id for node in nodes[:MAX_STAGES]]


@pytest.mark.parametrize("is_rebuilt", [False, True])
def test_without_a_promising_change_none_is_tried(is_rebuilt: bool) -> None:
    """The reason is that no change helps, or that the pipeline cannot be changed."""
    found = investigation_of(loaders.plain)._try_change([], evidence(is_rebuilt=is_rebuilt))
    assert isinstance(found, str)
    assert ("predicted to help" if is_rebuilt else "only a Grain pipeline") in found


TWO_WORKERS = Change("2 workers", "workers", 0.020, workers=2)


@pytest.mark.parametrize(("start_s", "tries"), [(5.0, False), (0.1, True)])
def test_a_change_that_does_not_fit_is_not_begun(
    monkeypatch: pytest.MonkeyPatch, start_s: float, tries: bool
) -> None:
    """Three rounds of two sides that start in 5 s take longer than the 22 s of a budget of 1 s."""
    failed = SideBlocks({}, {"2 workers": "out of memory"})
    monkeypatch.setattr(investigation, "measure_in_turns", lambda *_: failed)
    slow = investigation_of(loaders.plain, start_s=start_s)
    found = slow._try_change([TWO_WORKERS], evidence())
    assert found == ("out of memory" if tries else NO_TIME)
    (remark,) = slow._remarks
    assert remark.startswith(f"2 workers could not be tried: {found}")
    assert ("--budget" in remark) is not tries


def test_a_failure_of_the_unmodified_loader_ends_the_session() -> None:
    """The error gives the reason."""
    ends = iter([iter([1, 2, 3]), iter([4])])

    def loader() -> Iterator[int]:
        yield from next(ends)
        raise OSError("disk gone")

    with pytest.raises(SessionError, match="disk gone"):
        require_side("unmodified", SideBlocks({}, {"unmodified": "OSError: disk gone"}))
    with pytest.raises(SessionError, match=r"3 batches: .*disk gone"):
        Investigation(loader, investigation_request(), 2, Clock(), UNWATCHED).run()


class Slow:
    """A loader on a fake clock: a start takes `start_s`, and a batch `batch_s`."""

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
    """Diagnose a slow loader; return the findings, and the seconds since its first batches."""
    monkeypatch.setattr(
        single_thread_run, "SecondProcess", lambda *_: (_ for _ in ()).throw(OSError("none"))
    )
    clock = FakeClock()
    loader = Slow(clock, start_s, batch_s)
    found = Investigation(loader, investigation_request(budget_s), 2, clock, UNWATCHED).run()
    return found, clock() - start_s - 4 * batch_s


@pytest.mark.parametrize("budget_s", [5.0, 10.0, 60.0])
@pytest.mark.parametrize(("start_s", "batch_s"), [(0.0, 0.01), (5.0, 0.1), (20.0, 0.5), (2.0, 3.0)])
def test_a_diagnosis_keeps_its_limit(
    monkeypatch: pytest.MonkeyPatch, start_s: float, batch_s: float, budget_s: float
) -> None:
    """Slow starts and slow batches count; a block that began in time may end later."""
    assert max_duration_s(budget_s) == 2 * budget_s + 20
    found, took_s = on_a_fake_clock(monkeypatch, start_s, batch_s, budget_s)
    assert took_s <= max_duration_s(budget_s) + start_s + 3 * batch_s
    assert found.load_s_per_batch.median == pytest.approx(batch_s, rel=0.01)


def test_a_storage_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The findings name every stand-in of this process."""
    here = "/proc/self/fd"
    monkeypatch.setenv("NETPIPE_STORAGES", f"network-disk {here}\nlocal-nvme {here}")
    found, _ = on_a_fake_clock(monkeypatch, 0.1, 0.01, 10.0)
    assert found.storage == "network-disk and local-nvme"


def test_skipped_parts_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """A loader that takes 20 s to start leaves no time for all parts; a quick one does."""
    found, _ = on_a_fake_clock(monkeypatch, 20.0, 0.1, 5.0)
    (remark,) = (text for text in found.remarks if "--budget" in text)
    assert "two single-thread runs" in remark
    assert on_a_fake_clock(monkeypatch, 0.1, 0.01, 10.0)[0].remarks == ()


@pytest.mark.parametrize(("single_s", "proposes"), [(0.010, True), (0.0395, False), (0.060, False)])
def test_reading_without_threads_is_proposed_and_tried(
    monkeypatch: pytest.MonkeyPatch, single_s: float, proposes: bool
) -> None:
    """The single-thread run must be clearly faster than the unmodified loader."""

    def measure_in_turns(measured: Any, *_: object) -> SideBlocks:
        return SideBlocks({name: [block(0.04 + 0.001 * n) for n in range(3)] for name in measured})

    made = turns(single_thread=single_s, two_threads=single_s, two_processes=single_s)
    monkeypatch.setattr(single_thread_run.SingleThreadRun, "measure_scaling", lambda *_: made)
    monkeypatch.setattr(investigation, "measure_in_turns", measure_in_turns)
    session = Investigation(loaders.data_loader, investigation_request(), 2, Clock(), UNWATCHED)
    found = session.run()
    assert any(guess.kind == "no-threads" for guess in found.what_if) is proposes
    assert (found.verified is not None and found.verified.kind == "no-threads") is proposes


@pytest.mark.parametrize(
    ("loader", "proposes"),
    [
        (loaders.data_loader, True),
        (lambda: loaders.data_loader(1), True),
        (loaders.plain, False),
    ],
    ids=["threads", "threads-in-a-worker", "no-threads"],
)
def test_only_workers_and_threads_are_given_up(loader: Any, proposes: bool) -> None:
    """A loader without any is as it is."""
    measured = evidence(
        graph=investigation_of(loader)._graph,
        scaling=turns(single_thread=0.01),
        variants=in_rounds(unmodified=(0.04, 0.041, 0.042)),
    )
    assert (find_faster_alone(measured) is not None) is proposes
