"""When the rounds of a measurement end: budgets, stopping rules, and what needs all rounds."""

from collections.abc import Callable
from itertools import chain, repeat

import pytest

from netpipe.jobs import footprint
from netpipe.measuring.footprint_log import FootprintLog
from netpipe.measuring.round_log import RoundLog
from netpipe.measuring.rounds import RoundRunner
from netpipe.results.measurement import Device, Measurement
from tests.fakes import FakeClock
from tests.measurements import CPU, EMULATED, GPU
from tests.measuring.conftest import Rehearse


def test_the_caller_decides_when_the_rounds_end(rehearse: Rehearse) -> None:
    """The caller is asked after every round from the sixth on, with the measurement so far."""
    asked: list[int] = []

    def is_decided(measured: Measurement) -> bool:
        asked.append(measured.step_s.n)
        return len(asked) == 3

    assert rehearse(budget_s=100.0, is_decided=is_decided).step_s.n == 8
    assert asked == [6, 7, 8]


def test_an_undecided_case_takes_the_whole_budget(rehearse: Rehearse, clock: FakeClock) -> None:
    """Only the first rounds are short, as they may be enough."""
    gaps_s = chain.from_iterable(repeat((0.010, 0.020)))
    usual = rehearse(gaps_s, budget_s=30.0)
    started_s = clock()
    undecided = rehearse(gaps_s, budget_s=30.0, is_decided=lambda _: False)
    assert clock() - started_s > 24.0
    assert undecided.step_s.n > usual.step_s.n
    assert undecided.distributions is not None


def test_a_clear_case_takes_a_fraction_of_the_budget(rehearse: Rehearse, clock: FakeClock) -> None:
    """Calibration, estimates and rounds are sized for a quarter of the time."""
    started_s = clock()
    rehearse(budget_s=40.0, is_decided=lambda _: True)
    assert clock() - started_s < 20.0


@pytest.mark.parametrize(
    ("device", "grown_per_s", "compared", "rounds_s"),
    [
        (CPU, 0.0, True, 20.0),
        (CPU, 0.0, False, 40.0),
        (CPU, 1e7, True, 40.0),
        (GPU, 0.0, True, 40.0),
        (EMULATED, 0.0, True, 40.0),
    ],
    ids=["shared cores", "not compared", "growing memory", "gpu", "emulated"],
)
def test_compared_rounds_on_shared_cores_take_half_of_the_budget(
    rehearse: Rehearse,
    clock: FakeClock,
    monkeypatch: pytest.MonkeyPatch,
    device: Device,
    grown_per_s: float,
    compared: bool,
    rounds_s: float,
) -> None:
    """They take all of it on other devices, and if memory grows."""
    monkeypatch.setattr(RoundLog, "is_tight", lambda _: False)
    monkeypatch.setattr(footprint, "read_pss", lambda _: (int(1e8 + grown_per_s * clock()),) * 2)
    at_s: list[float] = []
    run_rounds = RoundRunner._run_rounds

    def run_timed(self: RoundRunner) -> None:
        at_s.append(clock())
        run_rounds(self)
        at_s.append(clock())

    monkeypatch.setattr(RoundRunner, "_run_rounds", run_timed)
    rehearse(budget_s=40.0, device=device, halves_on_shared_cores=compared)
    assert 0.8 * rounds_s < at_s[1] - at_s[0] < 1.05 * rounds_s


@pytest.mark.parametrize(
    ("of", "name", "value"),
    [(FootprintLog, "can_judge_growth", False), (RoundRunner, "_needs_all", True)],
)
def test_compared_rounds_on_a_cpu_may_need_the_whole_budget(
    rehearse: Rehearse, monkeypatch: pytest.MonkeyPatch, of: type, name: str, value: bool
) -> None:
    """Readings of large processes are rare; pauses and growth need all rounds."""
    monkeypatch.setattr(RoundLog, "is_tight", lambda _: False)
    usual = rehearse(budget_s=40.0, device=CPU, halves_on_shared_cores=True)
    monkeypatch.setattr(of, name, value)
    longer = rehearse(budget_s=40.0, device=CPU, halves_on_shared_cores=True)
    assert longer.step_s.n > 1.5 * usual.step_s.n


def test_the_devices_are_known_when_they_are_asked_for(
    rehearse: Rehearse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the first step, nothing tells on which device it will run."""
    runs: list[tuple[object, ...]] = []
    run = RoundRunner.run

    def run_asked(self: RoundRunner, half_is_enough: Callable[[], bool]) -> None:
        def asked() -> bool:
            runs.append(tuple(self.stepper.devices))
            return half_is_enough()

        run(self, asked)

    monkeypatch.setattr(RoundRunner, "run", run_asked)
    rehearse(halves_on_shared_cores=True)
    assert all(runs)
    assert runs


@pytest.mark.parametrize("is_decided", [None, lambda _: True], ids=["budget", "clear"])
def test_memory_that_grows_takes_the_whole_budget(
    rehearse: Rehearse,
    clock: FakeClock,
    monkeypatch: pytest.MonkeyPatch,
    is_decided: Callable[[Measurement], bool] | None,
) -> None:
    """Rounds do not end early while growth is proven, because it may stop."""
    monkeypatch.setattr(RoundLog, "is_tight", lambda _: True)
    monkeypatch.setattr(footprint, "read_pss", lambda _: (int(1e8 + 1e7 * clock()),) * 2)
    found = rehearse(budget_s=100.0, is_decided=is_decided)
    assert found.step_s.n > 8
    assert any(each.name == "memory-grows" for each in found.findings)


def test_a_tight_measurement_ends_before_its_budget(
    rehearse: Rehearse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There are no more rounds once the intervals are narrow."""
    monkeypatch.setattr(RoundLog, "is_tight", lambda self: len(self.loads) >= 7)
    assert rehearse(budget_s=1000.0).step_s.n == 7


def test_an_unsteady_machine_is_given_its_budget(
    clock: FakeClock, rehearse: Rehearse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rounds go on while the intervals are wide and the next round fits."""
    monkeypatch.setattr(RoundLog, "is_tight", lambda _: False)
    found = rehearse(budget_s=30.0)
    assert found.step_s.n > 6
    assert 15.0 < clock() < 60.0


def test_a_slow_loader_overruns_only_so_far(rehearse: Rehearse) -> None:
    """The rounds end by twice the budget, however few they are."""
    found = rehearse(repeat(1.0), budget_s=9.0)
    assert 1 <= found.step_s.n < 6
    assert found.step_s.high == float("inf")
