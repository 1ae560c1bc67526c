"""The number and the order of rounds, and the sizes of their blocks."""

from collections.abc import Iterator
from itertools import chain, count, cycle, repeat
from types import SimpleNamespace
from typing import Any, cast

import jax.numpy as jnp
import numpy as np
import pytest

from netpipe.jobs import processes
from netpipe.jobs.processes import HostCpu, busy_elsewhere_fraction
from netpipe.measuring.cpu_balance import CpuBalance
from netpipe.measuring.loader_puller import PulledBatches, Puller
from netpipe.measuring.round_log import BlockSizes, Estimates, LoadingBlocks, RoundLog, StepBlocks
from netpipe.measuring.rounds import RoundRunner
from netpipe.measuring.training import step_runner
from netpipe.measuring.training.training_loop import TrainBlock
from netpipe.verdict.decision import judge
from tests.fakes import FakeClock
from tests.measuring.conftest import LOAD_S, STEP_S, Rehearse, stamped_loop
from tests.measuring.simulated import prefetched


def test_rounds_alternate_which_side_comes_first(
    rehearse: Rehearse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Step and training blocks run A B B A, so a drift favours neither."""
    order: list[str] = []
    for name in ("_run_step_blocks", "_run_loading_blocks"):
        run = getattr(RoundRunner, name)

        def noted(self: RoundRunner, *args: Any, name: str = name, run: Any = run) -> Any:
            order.append(name)
            return run(self, *args)

        monkeypatch.setattr(RoundRunner, name, noted)
    rehearse()
    step, loading = "_run_step_blocks", "_run_loading_blocks"
    assert order[:8] == [step, loading, loading, step] * 2


def log_of(load_s: list[float], train_s: list[float]) -> RoundLog:
    """Make the log of rounds with these times and a step of 1 s."""
    step = StepBlocks(1.0, 1.0, None, 1.0, None, 0.0, 0)
    return RoundLog([step] * len(load_s), list(map(blocks_of, load_s, train_s)))


def blocks_of(load_s: float = 1.0, train_s: float = 1.0, *, drained: bool = True) -> LoadingBlocks:
    """Make the loading blocks of a round."""
    train = TrainBlock((train_s,), (0.0,), 1, 0, 2, 0, finite=True)
    return LoadingBlocks(drained, 0.0, PulledBatches((load_s,), 0.0, 1), train)


@pytest.mark.parametrize(
    ("log", "tight"),
    [
        (log_of([1.0] * 6, [1.0] * 6), True),
        (log_of([1.0] * 5, [1.0] * 5), False),
        (log_of([1.0] * 5 + [1.05], [1.0] * 5 + [1.03]), True),
        (log_of([1.0] * 5 + [1.07], [1.0] * 6), False),
        (log_of([1.0] * 6, [1.0] * 5 + [1.05]), False),
    ],
)
def test_rounds_are_tight_when_both_times_are_known(log: RoundLog, tight: bool) -> None:
    """Rounds are tight after at least six, with narrow intervals of L and of R/S0."""
    assert log.is_tight() is tight


@pytest.mark.parametrize(
    ("drained", "mostly"),
    [([True], True), ([True, False], False), ([True, True, False], True), ([False], False)],
)
def test_a_drain_may_fail_now_and_then(drained: list[bool], mostly: bool) -> None:
    """Load times count if the buffers were drained before most of them."""
    assert RoundLog(loads=[blocks_of(drained=each) for each in drained]).mostly_drained is mostly


def test_a_round_says_how_busy_the_host_was_while_the_loader_ran_alone(
    rehearse: Rehearse, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program that is there only then takes the whole of each round's block, with its drain."""
    taken_s = 0.0

    def beside_a_program(name: str) -> None:
        run = getattr(Puller, name)

        def noted(*given: Any, **options: Any) -> Any:
            nonlocal taken_s
            started_s = clock()
            try:
                return run(*given, **options)
            finally:
                taken_s += clock() - started_s

        monkeypatch.setattr(Puller, name, noted)

    beside_a_program("drain")
    beside_a_program("pull_flat_out")
    monkeypatch.setattr(processes, "read_host_cpu", lambda: HostCpu(taken_s, clock(), 0.0))
    monkeypatch.setattr(processes, "busy_elsewhere_fraction", busy_elsewhere_fraction)
    found = rehearse()
    assert found.rounds.busy_elsewhere_fraction == pytest.approx((1.0,) * found.step_s.n)
    assert found.busy_elsewhere_fraction < 0.9


def test_buffered_batches_do_not_shorten_the_load_time(rehearse: Rehearse) -> None:
    """Batches from a buffer at the beginning do not count."""
    found = rehearse(chain(repeat(LOAD_S / 100, 100), repeat(LOAD_S)))
    assert found.load_s_per_batch.median == pytest.approx(LOAD_S)


def test_undrained_buffers_are_a_finding(
    rehearse: Rehearse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The finding has the number of batches that were pulled."""
    monkeypatch.setattr(Puller, "drain", lambda *_, **__: (False, 99.0))
    found = rehearse()
    assert (found.drained, found.buffered_batches) == (False, None)
    assert [finding.name for finding in found.findings] == ["undrained-buffers"]
    assert "after 99 batches" in found.findings[0].message


@pytest.fixture
def estimates(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The load times in seconds that are estimated before the rounds."""
    found: list[float] = []
    estimate = Puller.pull_until_steady

    def noted(self: Puller, *limits: Any) -> PulledBatches:
        pulled = estimate(self, *limits)
        found.append(pulled.s_per_batch)
        return pulled

    monkeypatch.setattr(Puller, "pull_until_steady", noted)
    return found


@pytest.mark.parametrize("gaps_s", [repeat(0.02), chain([3.0, 0.5, 0.1], repeat(0.02))])
def test_the_first_estimate_waits_for_agreement(
    rehearse: Rehearse, gaps_s: Any, estimates: list[float]
) -> None:
    """Slow first batches, while workers start, do not count."""
    rehearse(gaps_s)
    assert estimates == [pytest.approx(0.02)]


def compiling_step(clock: FakeClock, compile_s: float) -> Any:
    """Return a step that compiles in its first call."""

    def step(state: int, _: Any) -> tuple[int, Any]:
        clock.sleep(STEP_S if state else compile_s)
        return state + 1, {"loss": jnp.float32(0)}

    return step


@pytest.mark.parametrize("take_s", [0.0, 0.0003])
def test_a_deep_buffer_does_not_fool_the_estimate(
    clock: FakeClock, rehearse: Rehearse, estimates: list[float], take_s: float
) -> None:
    """Batches made while the step compiled do not count."""
    gaps_s = prefetched(clock, repeat(0.033), 2500, take_s)
    step = compiling_step(clock, 2500 * 0.033)
    found = rehearse(gaps_s, budget_s=20.0, step=lambda: (0, step))
    assert estimates == [pytest.approx(0.033)]
    assert found.rounds.load_s_per_batch == pytest.approx([0.033] * found.step_s.n)
    assert found.step_s.n >= 6


@pytest.mark.parametrize(("compile_s", "is_drained"), [(3.0, True), (100.0, False)])
def test_batches_made_before_do_not_pass_for_loading(
    clock: FakeClock,
    rehearse: Rehearse,
    monkeypatch: pytest.MonkeyPatch,
    compile_s: float,
    is_drained: bool,
) -> None:
    """A buffer that gives a batch in 15 ms looks drained, but its batches cost no CPU time.

    The worker makes a batch in 33 ms of CPU time, also while the step compiles.
    """
    take_s, make_s, given, made_at_s = 0.015, 0.033, 0, clock()
    step = compiling_step(clock, compile_s)

    def gaps_s() -> Iterator[float]:
        nonlocal given, made_at_s
        while True:
            made_at_s += make_s
            given += 1
            yield max(take_s, made_at_s - clock())

    def loading_cpu_s(_: Puller) -> float:
        return given * make_s + max(0.0, clock() - made_at_s)

    monkeypatch.setattr(Puller, "loading_cpu_s", loading_cpu_s)
    found = rehearse(gaps_s(), budget_s=20.0, step=lambda: (0, step))
    assert found.drained is is_drained
    assert is_drained is (found.load_s_per_batch.median > 0.9 * make_s)
    assert ("undrained-buffers" in {finding.name for finding in found.findings}) is not is_drained


@pytest.mark.parametrize(
    ("restarts", "workers", "last_s", "covered"),
    [
        (0, 1, 0.05, [True, True, False]),
        (1, 1, 0.05, [True, False, False]),
        (0, 0, 0.06, [True, True, True]),
        (0, 0, 0.04, [True, True, False]),
    ],
)
def test_batches_are_compared_with_those_since_the_last_block(
    restarts: int, workers: int, last_s: float, covered: list[bool]
) -> None:
    """Batches may become cheaper for good, above all in threads; a restart begins anew."""
    cpu_s = 5.0
    processes = SimpleNamespace(worker_pids=(1,) * workers)
    puller = SimpleNamespace(
        pulled=10, restarts=0, processes=processes, loading_cpu_s=lambda: cpu_s
    )
    balance, found = CpuBalance(cast(Puller, puller), FakeClock()), list[bool]()
    for between_s, block_s in ((9.0, 1.0), (1.0, 0.1), (1.0, last_s)):
        cpu_s, puller.pulled = cpu_s + between_s, puller.pulled + 90
        puller.restarts = restarts * len(found)
        before = balance.now()
        cpu_s, puller.pulled = cpu_s + block_s, puller.pulled + 10
        found.append(balance.covers(before))
    assert found == covered


def test_an_estimate_is_bounded(rehearse: Rehearse) -> None:
    """A loader whose load times never agree is estimated in limited time."""
    assert rehearse(cycle([0.01] * 4 + [0.2] * 4)).step_s.n >= 1


@pytest.mark.parametrize(
    ("typical_s", "stretch", "train_stretch"),
    [(0.010, 1.0, 1.0), (0.012, 1.0, 1.0), (0.005, 2.0, 2.0), (0.004, 2.5, 2.0), (0.0, 3.0, 2.0)],
)
def test_blocks_outlast_a_stutter(typical_s: float, stretch: float, train_stretch: float) -> None:
    """If the mean time of a batch exceeds the typical one, blocks are longer than its pauses."""
    found = BlockSizes.within(2.0, Estimates(0.010, typical_s, 0.030, 0.030, 0.030))
    assert found.load_s == pytest.approx(0.3 * stretch)
    assert found.train.steps == pytest.approx(24 * train_stretch, abs=1)
    assert found.train.limit_s == pytest.approx(1.4 * train_stretch)


def test_a_working_loop_is_measured_in_time(clock: FakeClock, rehearse: Rehearse) -> None:
    """A loop that works for the time of thirty steps on each batch is measured in its time."""

    def stamped_working_loop(batches: Iterator[Any], state: Any, step: Any) -> None:
        for batch in batches:
            stamped_loop(iter([batch]), state, step)
            clock.sleep(0.060)

    found = rehearse(repeat(0.002), budget_s=20.0, step_s=0.002, loop=stamped_working_loop)
    assert found.step_s.n >= 6
    assert clock() < 20.0 + 8.0 + 5.0  # the warm-up
    assert found.host_s_per_step is not None
    assert found.host_s_per_step.median == pytest.approx(0.060)


def test_a_slow_step_is_measured_in_time(clock: FakeClock, rehearse: Rehearse) -> None:
    """Four rounds of a step of half a second need a little more than 20 s."""
    found = rehearse(repeat(0.010), budget_s=20.0, step_s=0.5)
    assert found.step_s.n >= 4
    assert clock() < 32.0 + 8.0 + 10.0  # the warm-up
    assert found.step_s.median == pytest.approx(0.5)
    assert judge(found).kind == "healthy"


def test_a_long_step_gets_a_longer_budget(clock: FakeClock, rehearse: Rehearse) -> None:
    """Four rounds of a step of 1.5 s do not fit into 20 s, so the budget becomes 96 s."""
    found = rehearse(repeat(0.010), budget_s=20.0, step_s=1.5)
    assert found.step_s.n >= 4
    assert clock() < 96.0 + 8.0 + 28.0  # the warm-up
    assert judge(found).kind == "healthy"
    (finding,) = (each for each in found.findings if each.name == "long-step")
    assert "4 rounds need 96 s, so the budget became 96 s" in finding.message


def test_the_loader_counts_in_the_budget_of_a_long_step(rehearse: Rehearse) -> None:
    """A batch that takes as long as a step makes the rounds longer too."""
    found = rehearse(repeat(0.9), budget_s=20.0, step_s=1.0)
    assert found.step_s.n >= 4


def test_contents_vary_from_round_to_round_as_in_training(
    clock: FakeClock, rehearse: Rehearse
) -> None:
    """A step takes 30 ms on synthetic batches and on the loader's first ones, later 60 ms."""

    def loader() -> Iterator[Any]:
        for number in count():
            clock.sleep(0.001)
            yield {"x": np.full((2, 3), number < 20, np.int32)}

    def step(state: int, batch: Any) -> tuple[int, Any]:
        clock.sleep(0.030 if batch["x"][0, 0] else 0.060)
        return state + 1, {"loss": jnp.float32(0)}

    synthetic = [{"x": np.ones((2, 3), np.int32)}] * 2
    found = rehearse(loader=loader, step=lambda: (0, step), synthetic=lambda: synthetic)
    assert found.step_s.median == pytest.approx(0.030)
    assert found.step_loaded_s is not None
    assert found.step_loaded_s.median == pytest.approx(0.060)


def test_a_very_long_step_names_the_budget_that_it_needs(rehearse: Rehearse) -> None:
    """Nobody waits for more than five minutes unless asked to."""
    found = rehearse(repeat(0.010), budget_s=20.0, step_s=20.0)
    assert found.step_s.n < 3
    assert judge(found).kind == "inconclusive"
    (finding,) = (each for each in found.findings if each.name == "long-step")
    assert "4 rounds need 1281 s, so the budget became 300 s" in finding.message


def test_copies_that_take_no_time_are_counted_as_steps(
    rehearse: Rehearse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first estimate of a transfer is next to nothing if the step before it is still running.

    Blocks sized by it had one hundred steps, or failed with a division by zero.
    """
    monkeypatch.setattr(step_runner, "is_ready", lambda _: False)
    found = rehearse()
    assert found.step_s.n >= 6


def test_a_slow_loader_is_measured_in_time(clock: FakeClock, rehearse: Rehearse) -> None:
    """A loader of half a second is judged within a budget of 20 s plus 8 s."""
    found = rehearse(prefetched(clock, repeat(0.5), 4), budget_s=20.0)
    assert found.step_s.n >= 3
    assert found.load_s_per_batch.median == pytest.approx(0.5)
    assert judge(found).kind == "loader-bound"
