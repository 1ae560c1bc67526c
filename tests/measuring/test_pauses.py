"""Loaders with pauses that are too long for steps in flight to hide."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import count, repeat
from random import Random
from typing import Any

import pytest

from netpipe.measuring import rounds
from netpipe.measuring.pauses import Pauses
from netpipe.measuring.training import training_loop
from netpipe.measuring.training.step_runner import StepRunner
from netpipe.results.measurement import Device, Measurement
from netpipe.verdict import decision
from netpipe.verdict.decision import judge
from tests.fakes import FakeClock
from tests.measuring.conftest import Rehearse
from tests.measuring.simulated import SimulatedStep, prefetched

BUDGET_S = 20.0
_STEPS_IN_FLIGHT = 2

Simulate = Callable[[Iterable[float], float, float], Measurement]
"""Measures a loader with these gaps and a step of this time, within a budget, in seconds."""

_DEVICE = Device(key="emulated-step", kind="a step", platform="emulated")


@pytest.fixture
def simulate(rehearse: Rehearse, clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> Simulate:
    """`netpipe measure` on the fake clock, with an asynchronous accelerator."""
    wait_for_device = training_loop.WatchedStep.wait_for_device

    def wait_in_this_thread(watched: training_loop.WatchedStep) -> Any:
        found = wait_for_device(watched)
        SimulatedStep.wait(watched.latest)
        return found

    monkeypatch.setattr(training_loop.WatchedStep, "wait_for_device", wait_in_this_thread)
    monkeypatch.setattr(StepRunner, "find_done", lambda _, aux: aux)
    monkeypatch.setattr(rounds, "late_reading_loop", training_loop.late_reading_loop)

    def run(gaps_s: Iterable[float], step_s: float, budget_s: float) -> Measurement:
        return rehearse(
            gaps_s,
            budget_s=budget_s,
            device=_DEVICE,
            is_decided=decision.is_clearly_healthy,
            step=lambda: (0, SimulatedStep(clock, step_s)),
            loop=None,
        )

    return run


def gaps(usual_s: float, pause_s: float, every: int, noise: float = 0.03) -> Iterator[float]:
    """Give the gaps of a loader that pauses before every `every`-th batch."""
    random = Random(every)
    for number in count(random.randrange(every)):
        late_s = pause_s if number % every == every - 1 else 0.0
        yield usual_s * max(0.2, random.gauss(1, noise)) + late_s


@pytest.mark.parametrize("depth", [0, 4])
@pytest.mark.parametrize(("pause_s", "every"), [(0.4, 25), (0.9, 40)])
def test_a_fast_loader_with_rare_pauses_is_jitter(
    simulate: Simulate, clock: FakeClock, pause_s: float, every: int, depth: int
) -> None:
    """Each round holds as many pauses as any other, so rounds agree."""
    gaps_s = gaps(0.004, pause_s, every)
    found = simulate(prefetched(clock, gaps_s, depth) if depth else gaps_s, 0.030, 30.0)
    assert judge(found).kind == "jitter"
    batches = int(judge(found).next.split()[3])
    assert 0.5 < batches * 0.030 / pause_s < 1.1
    load_s = 0.004 + pause_s / every
    assert found.rounds.load_s_per_batch == pytest.approx([load_s] * found.step_s.n, rel=0.05)
    train_s = found.rounds.train_s_per_step
    assert train_s == pytest.approx([train_s[0]] * found.step_s.n, rel=0.05)
    assert "pauses" in {finding.name for finding in found.findings}


@dataclass(frozen=True)
class Case:
    """A loader with at least four pauses in the budget, which cost 8% to 50% of the time."""

    step_s: float
    usual_s: float
    pause_s: float
    every: int
    depth: int
    noise: float

    @classmethod
    def draw(cls, seed: int) -> "Case":
        """Return a random case whose mean load time is below 1.2 steps."""
        random = Random(seed)
        while True:
            step_s = 10 ** random.uniform(-2.1, -1.2)
            usual_s = step_s * random.uniform(0.03, 0.5)
            depth = random.choice([0, 0, 1, 2, 4, 8])
            cost = random.uniform(0.08, 0.5)
            period_s = BUDGET_S / (4 * 10 ** random.uniform(0, 1.2))
            every = max(8, round((1 - cost) * period_s / step_s))
            hidden_s = _STEPS_IN_FLIGHT * step_s + depth * (step_s - usual_s)
            pause_s = cost / (1 - cost) * every * step_s + hidden_s
            if usual_s + pause_s / every < 1.2 * step_s:
                return cls(step_s, usual_s, pause_s, every, depth, random.choice([0.02, 0.1, 0.3]))

    def kinds(self) -> tuple[str, ...]:
        """Return the right verdicts, two if the mean load time is near the step."""
        is_slow = self.usual_s + self.pause_s / self.every > 0.95 * self.step_s
        return ("jitter", "loader-bound") if is_slow else ("jitter",)


def test_pauses_that_cost_time_are_named(simulate: Simulate, clock: FakeClock) -> None:
    """At most 2 of 40 random cases are inconclusive, and none is healthy."""
    called: list[tuple[str, Case]] = []
    for case in map(Case.draw, range(40)):
        gaps_s = gaps(case.usual_s, case.pause_s, case.every, case.noise)
        if case.depth:
            gaps_s = prefetched(clock, gaps_s, case.depth)
        kind = judge(simulate(gaps_s, case.step_s, BUDGET_S)).kind
        if kind not in case.kinds():
            called.append((kind, case))
    assert len(called) <= 2, called
    assert {kind for kind, _ in called} <= {"inconclusive"}


@pytest.mark.parametrize("every", [100, 150])
def test_a_pause_in_a_hundred_batches_is_not_healthy(simulate: Simulate, every: int) -> None:
    """The short rounds of a clear case do not end before the pause shows."""
    assert judge(simulate(gaps(0.003, 0.6, every), 0.030, BUDGET_S)).kind == "jitter"


def test_health_says_over_how_many_batches(simulate: Simulate, clock: FakeClock) -> None:
    """A steady loader ends early, after enough batches to show a pause that comes four times."""
    found = simulate(repeat(0.003), 0.030, BUDGET_S)
    assert clock() < 0.75 * BUDGET_S
    assert found.watched_batches >= BUDGET_S / 0.030 / 4
    assert judge(found).message.endswith(f", over {found.watched_batches:,} batches")


def test_hidden_pauses_are_healthy(simulate: Simulate, clock: FakeClock) -> None:
    """A deep buffer hides pauses, which are still a finding."""
    found = simulate(prefetched(clock, gaps(0.004, 0.4, 25), 32), 0.030, BUDGET_S)
    assert judge(found).kind == "healthy"
    assert "pauses" in {finding.name for finding in found.findings}


def watched(waits_s: list[float], burst_s: float = 0.01, step_s: float = 1.0) -> Pauses:
    """Watch the waits for batches."""
    pauses = Pauses(step_s)
    pauses.watch(waits_s, burst_s)
    return pauses


@pytest.mark.parametrize(
    ("waits_s", "cycle"),
    [
        ([0.01] * 40, 1),
        ([0.01] * 9 + [1.0] + [0.01] * 30, 1),  # a step in flight hides it
        ([0.01] * 9 + [1.02], 10),
        ([0.01] * 9 + [1.02] + [0.01] * 30, 1),  # too rare to cost 5%
        ([0.01] * 9 + [9.0] + [0.01] * 30, 40),
        (([0.01] * 6 + [1.02]) * 3, 7),
        ([1.02, *[0.01] * 7, 1.02, *[0.01] * 7, 1.02], 8),
        ([1.02, *[0.01] * 2, 1.02, *[0.01] * 12, 1.02], 32),  # four random pauses
        ([], 1),
    ],
)
def test_a_cycle_holds_a_pause(waits_s: list[float], cycle: int) -> None:
    """Pauses exceed a burst by a step, and matter if they cost 5% of the steps."""
    assert watched(waits_s).cycle == cycle


def test_distances_end_with_a_block() -> None:
    """Batches between two blocks are not watched."""
    pauses = watched([0.01] * 9 + [2.0])
    pauses.watch([2.0, *[0.01] * 3, 2.0], 0.01)
    assert pauses.cycle == 4
    assert pauses.batches == 15


def test_the_finding_has_the_pauses() -> None:
    """It has the number of batches after a pause, and the mean pause."""
    found = watched([*[0.01] * 8, 2.01, 4.01]).describe()
    assert (found.name, found.message) == (
        "pauses", "2 of 10 batches came after a pause; a pause takes 3 s on average",
    )  # fmt: skip
