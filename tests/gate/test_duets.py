"""Decisions of duets: in each direction, at each number of duets, and their error rate."""

from collections import Counter
from dataclasses import replace
from functools import cache, partial
from typing import Any

import numpy as np
import pytest
from scipy.stats import chi2

from netpipe.errors import OutOfTimeError
from netpipe.gate import duets as deciding
from netpipe.gate.duets import MAX_DUETS, MIN_DUETS, Duet, decide, decide_in_duets, estimate_change
from netpipe.gate.metrics import METRICS, ONCE
from netpipe.gate.outcomes import Comparison, Outcome
from netpipe.results.measurement import Device, Measurement
from tests.gate.sessions import worse_of
from tests.plugin.recorded import CPU, H200, make_duet, recorded

USUAL = recorded(device=H200)


def decided(*ratios: float, device: Device = H200) -> Comparison:
    """Decide on duets whose steps take the given factor times as long in this version."""
    steps = [
        recorded(step_s=0.030 * factor, train_s=0.030 * factor, device=device) for factor in ratios
    ]
    return decide("step_s", [make_duet("step_s", USUAL, step) for step in steps])


def outcome(*ratios: float) -> tuple[Outcome, bool]:
    """Return the outcome and whether it is open."""
    decision = decided(*ratios)
    return decision.outcome, decision.is_open


@pytest.mark.parametrize(
    ("ratios", "expected"),
    [
        ((1.0, 1.01, 0.99), (Outcome.PASS, False)),
        ((1.12, 1.13, 1.11), (Outcome.REGRESSED, False)),
        ((0.88, 0.89, 0.87), (Outcome.IMPROVED, False)),
        ((1.02, 1.021, 1.019), (Outcome.PASS, False)),
        ((0.96, 0.961, 0.959), (Outcome.PASS, False)),
        ((1.06, 1.061, 1.059), (Outcome.REGRESSED, False)),
    ],
    ids=["equal", "slower", "faster", "hardly slower", "hardly faster", "just slower"],
)
def test_three_duets_that_agree_decide(
    ratios: tuple[float, ...], expected: tuple[Outcome, bool]
) -> None:
    """A time counts as slower from 5% on, and as faster likewise."""
    assert outcome(*ratios) == expected


def test_processes_spread_more_on_shared_cores() -> None:
    """There, a step that is 6% slower takes four duets that agree, and an equal one three."""
    for device, slower, equal in ((H200, 3, 2), (CPU, 4, 3)):
        for ratio, least in ((1.06, slower), (1.0, equal)):
            ends = [not decided(*[ratio] * count, device=device).is_open for count in range(1, 6)]
            assert ends.index(True) + 1 == least


def test_one_duet_never_decides() -> None:
    """A single duet leaves every outcome open."""
    assert decided(1.0).is_open
    assert decided(1.5).is_open


def test_two_duets_prove_no_change() -> None:
    """Two duets may agree on a change by chance, so a third one is measured."""
    assert outcome(1.0, 1.0) == (Outcome.PASS, False)
    assert outcome(1.5, 1.5) == (Outcome.INCONCLUSIVE, True)
    assert outcome(0.7, 0.7) == (Outcome.INCONCLUSIVE, True)


def test_a_suspicion_is_followed_up() -> None:
    """An unproven change above the bound stays open, and is INCONCLUSIVE at the end."""
    spread = [1.20, 0.95, 1.18, 1.15, 0.90]
    for count in range(MIN_DUETS, MAX_DUETS):
        assert outcome(*spread[:count]) == (Outcome.INCONCLUSIVE, True)
    assert outcome(*spread) == (Outcome.INCONCLUSIVE, False)


def test_an_interval_that_includes_the_bound_is_followed_up() -> None:
    """An uncertain change below the bound stays open, and passes at the end."""
    spread = [1.00, 1.08, 0.95, 1.01, 0.99]
    assert outcome(*spread[:3]) == (Outcome.PASS, True)
    assert outcome(*spread) == (Outcome.PASS, False)


def test_what_may_hide_a_slowdown_is_no_pass() -> None:
    """Equal duets that do not exclude a 10% change are INCONCLUSIVE at the end."""
    spread = [1.00, 1.20, 0.85, 1.05, 0.90]
    assert outcome(*spread[:3]) == (Outcome.PASS, True)
    assert outcome(*spread) == (Outcome.INCONCLUSIVE, False)


def test_duets_are_run_until_they_decide() -> None:
    """Earlier duets count too, and an equal pair of versions needs two."""
    equal = make_duet("step_s", USUAL, USUAL)
    for already in range(MIN_DUETS):
        duets = [equal] * already
        assert decide_in_duets("step_s", duets, lambda: equal).outcome is Outcome.PASS
        assert len(duets) == MIN_DUETS


def test_what_is_open_without_time_is_no_pass() -> None:
    """If no further duet fits, the result is INCONCLUSIVE; with no duet at all it is an error."""

    def no_time() -> Duet:
        raise OutOfTimeError("no more sessions")

    found = decide_in_duets("step_s", [make_duet("step_s", USUAL, USUAL)], no_time)
    assert found.outcome is Outcome.INCONCLUSIVE
    assert "no more sessions" in found.reason
    with pytest.raises(OutOfTimeError):
        decide_in_duets("step_s", [], no_time)


def test_the_reason_has_the_ratio_and_its_interval() -> None:
    """The reason has the metric, the factor, its interval, the number of duets and the bound."""
    comparison = decided(1.11, 1.12, 1.13)
    for value in ("step_s", "1.12 x", "1.08 to 1.16", "3 duets", "1.05"):
        assert value in comparison.reason
    assert comparison.worse_ratio == pytest.approx(1.12, abs=1e-4)
    assert comparison.then == pytest.approx(0.030)
    assert comparison.now == pytest.approx(0.030 * 1.12)


@pytest.mark.parametrize(
    ("slower", "metric"),
    [
        (recorded(load_cpu_ratio=2.0 * 1.045), "load_cpu_ratio"),
        (recorded(load_s=0.0108), "load_s_per_batch"),
    ],
    ids=["CPU time", "waiting"],
)
def test_loading_is_held_tightly(slower: Measurement, metric: str) -> None:
    """CPU time counts from 3% on, and wall time from 5%, because both versions wait alike."""
    comparison = decide("load_s_per_batch", [make_duet("load_s_per_batch", USUAL, slower)] * 3)
    assert (comparison.outcome, comparison.metric) == (Outcome.REGRESSED, metric)


def test_less_utilisation_is_worse() -> None:
    """Utilisation regresses when it falls, and improves when it rises."""
    fine, waiting = recorded(device=H200), recorded(train_s=0.036, device=H200)
    worse, better = (
        decide("train_s_per_step", [make_duet("train_s_per_step", *sides)] * 3)
        for sides in ((fine, waiting), (waiting, fine))
    )
    assert (worse.outcome, worse.metric) == (Outcome.REGRESSED, "accelerator_utilisation")
    assert (better.outcome, better.metric) == (Outcome.IMPROVED, "accelerator_utilisation")


def test_other_data_are_not_compared() -> None:
    """Versions with other data need no further duet."""
    other = replace(USUAL, fingerprint="other data")
    decision = decide("step_s", [make_duet("step_s", other, USUAL)])
    assert (decision.outcome, decision.is_open) == (Outcome.NOT_COMPARED, False)
    assert "other data" in decision.reason


def test_too_few_slices_are_inconclusive() -> None:
    """Steps of many seconds, or epochs shorter than a block, are neither judged nor PASS."""
    for slices in (0, 3):
        duet = make_duet("step_s", USUAL, USUAL, slices)
        assert decide("step_s", [duet]).is_open
        decision = decide("step_s", [duet, duet])
        assert (decision.outcome, decision.is_open) == (Outcome.INCONCLUSIVE, False)
        assert f"only {slices} slices fitted into a duet; give a larger budget" in decision.reason


def test_a_short_epoch_needs_no_larger_budget() -> None:
    """The reason has its batches, and what helps."""
    duet = replace(make_duet("step_s", USUAL, USUAL, 0), epoch_batches=8)
    reason = decide("step_s", [duet, duet]).reason
    assert "an epoch of 8 batches is too short: let the loader go on (repeat)" in reason
    assert "budget" not in reason


def test_a_short_duet_does_not_hide_a_slowdown() -> None:
    """A disturbed duet with few slices does not count; the others decide."""
    short = make_duet("step_s", USUAL, USUAL, 2)
    slow = make_duet("step_s", USUAL, recorded(step_s=0.036))
    assert decide("step_s", [slow, short, slow]).is_open
    assert decide("step_s", [slow, short, slow, slow]).outcome is Outcome.REGRESSED


def test_a_duet_shows_what_is_reported_only() -> None:
    """On a device that shares its cores, utilisation is reported but not judged."""
    shared = recorded()
    comparison = decide("train_s_per_step", [make_duet("train_s_per_step", shared, shared)] * 3)
    (utilisation, *_) = comparison.metrics
    assert utilisation.is_reported_only
    assert comparison.outcome is Outcome.PASS


def test_nothing_is_divided_by_zero() -> None:
    """A change from 0 is infinite, in the metric's direction."""
    idle, some = recorded(load_cpu_ratio=0.0), recorded()
    for sides, outcome in (((idle, some), Outcome.REGRESSED), ((some, idle), Outcome.IMPROVED)):
        comparison = decide("load_s_per_batch", [make_duet("load_s_per_batch", *sides)] * 3)
        assert (comparison.outcome, comparison.metric) == (outcome, "load_cpu_ratio")


def test_a_few_wild_slices_move_little() -> None:
    """One slice in ten that took five times as long does not change the outcome."""
    changes = [0.01] * 18 + [1.6, 1.6]
    change, variance = estimate_change(changes)
    assert change == pytest.approx(0.01)
    assert variance < 0.01**2


@pytest.mark.parametrize("usual", [1.0, 0.9], ids=["equal", "faster"])
def test_pauses_do_not_pass(usual: float) -> None:
    """A loader is not as before if every eighth slice takes six times as long in each duet."""
    duet = make_duet("load_s_per_batch", USUAL, USUAL, 24)
    times_s = duet.base["load_s_per_batch"]
    paused = [value * (6.0 if number % 8 == 0 else usual) for number, value in enumerate(times_s)]
    pausing = replace(duet, now={**duet.now, "load_s_per_batch": paused})
    found = outcome_of("load_s_per_batch", [pausing] * MAX_DUETS)
    assert found.outcome is Outcome.INCONCLUSIVE
    assert "with pauses at least" in found.reason
    once_paused = outcome_of("load_s_per_batch", [pausing, duet, duet])
    assert once_paused.outcome is Outcome.PASS


def disturbed(factor: float, quiet: int = 12) -> Comparison:
    """Compare loaders that differ by a factor in every second of 24 slices.

    Other programs were busy in the last slices, and in every second one of the first.
    """
    duet = make_duet("load_s_per_batch", USUAL, USUAL, 24)
    times_s = duet.base["load_s_per_batch"]
    now_s = [each * (factor if number % 2 else 1.0) for number, each in enumerate(times_s)]
    busy = tuple(0.0 if number % 2 == 0 and number < 2 * quiet else 0.11 for number in range(24))
    now = {**duet.now, "load_s_per_batch": now_s}
    return outcome_of(
        "load_s_per_batch", [replace(duet, now=now, busy_elsewhere_fraction=busy)] * 3
    )


def test_slices_beside_busy_programs_do_not_count() -> None:
    """Five quiet slices are enough; if fewer are quiet, all count."""
    assert disturbed(1.18).outcome is Outcome.PASS
    assert disturbed(1.18, quiet=5).outcome is Outcome.PASS
    assert disturbed(1.18, quiet=4).outcome is Outcome.REGRESSED


def test_pauses_beside_busy_programs_do_not_pass() -> None:
    """Other programs may be busy during the pauses of this version, or on its behalf."""
    found = disturbed(1.5)
    assert found.outcome is Outcome.INCONCLUSIVE
    assert "with pauses at least" in found.reason


# ---- How often it is wrong: all duets are drawn


estimated, quantile = cache(estimate_change), cache(chi2.ppf)


@pytest.fixture
def remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Estimate each duet once, although every look at a run estimates all its duets again."""
    monkeypatch.setattr(deciding, "estimate_change", lambda changes: estimated(tuple(changes)))
    monkeypatch.setattr(chi2, "ppf", quantile)


def draw(
    rng: np.random.Generator,
    change: float,
    process: float,
    slice_: float,
    *,
    slices: int = 24,
    shares_cores: bool = False,
) -> Duet:
    """Draw a duet whose slices are correlated by 0.5, as under a load."""
    noise = rng.normal(0.0, slice_, slices)
    for index in range(1, len(noise)):
        noise[index] = 0.5 * noise[index - 1] + 0.75**0.5 * noise[index]
    ratios = np.exp(change + rng.normal(0.0, process) + noise)
    base, now = (
        {"step_s": values} for values in ((0.03,) * slices, tuple((0.03 * ratios).tolist()))
    )
    return Duet(base, now, shares_cores=shares_cores)


def chances(
    slowdown: float, process: float, slice_: float, decisions: int, **settings: Any
) -> Counter[Outcome]:
    """Draw duets until they decide."""
    rng = np.random.default_rng([round(1000 * x) for x in (slowdown, process, slice_)])
    found: Counter[Outcome] = Counter()
    for _ in range(decisions):
        draw_next = partial(draw, rng, np.log(slowdown), process, slice_, **settings)
        found[decide_in_duets("step_s", [], draw_next).outcome] += 1
    return found


@pytest.mark.usefixtures("remembered")
@pytest.mark.parametrize("process", [0.0, 0.006, 0.02])
@pytest.mark.parametrize(("slices", "slice_"), [(24, 0.02), (24, 0.08), (5, 0.02), (5, 0.04)])
def test_identical_code_seldom_regresses(process: float, slices: int, slice_: float) -> None:
    """Whatever the spread of processes and slices, at most 1% of the decisions are alarms.

    Five slices count if only they were quiet; such slices spread by up to 4%.
    """
    assert chances(1.0, process, slice_, 300, slices=slices)[Outcome.REGRESSED] <= 3


@pytest.mark.usefixtures("remembered")
@pytest.mark.parametrize("slice_", [0.02, 0.14])
def test_identical_steps_seldom_regress_on_shared_cores(slice_: float) -> None:
    """If processes spread by 4.2%, at most 1% are called slower or faster."""
    found = chances(1.0, 0.042, slice_, 600, shares_cores=True)
    assert found[Outcome.REGRESSED] + found[Outcome.IMPROVED] <= 6


@pytest.mark.usefixtures("remembered")
@pytest.mark.parametrize(
    ("slowdown", "slice_", "slices"), [(1.08, 0.05, 24), (1.10, 0.08, 24), (1.08, 0.03, 5)]
)
def test_slowdowns_are_found(slowdown: float, slice_: float, slices: int) -> None:
    """With a bound of 5%, 8% is found if slices spread by 5%, and 10% if they spread by 8%."""
    found = chances(slowdown, 0.006, slice_, 200, slices=slices)
    assert found[Outcome.REGRESSED] >= 0.95 * 200


@cache
def unchanged() -> list[list[Duet]]:
    """Draw the most duets of 1000 runs of identical code."""
    rng = np.random.default_rng(0)
    return [
        [draw(rng, 0.0, 0.006, rng.uniform(0.02, 0.10)) for _ in range(MAX_DUETS)]
        for _ in range(1000)
    ]


@pytest.mark.usefixtures("remembered")
@pytest.mark.parametrize("count", range(MIN_DUETS, MAX_DUETS + 1))
def test_intervals_keep_their_level_at_every_number_of_duets(count: int) -> None:
    """Intervals of identical code, at 99.5% on each side, seldom exclude zero change."""
    runs = unchanged()
    alarms = 0
    for duets in runs:
        worse = worse_of(decide("step_s", duets[:count]).metrics[0])
        alarms += worse.low > 1
    assert alarms <= 0.005 * len(runs) + 3 * (0.005 * len(runs)) ** 0.5


def once(metric: str, *changes: float | None) -> list[Duet]:
    """Make duets in which a metric that a duet has once is larger by these factors."""
    duets = []
    for change in changes:
        duet = make_duet("load_s_per_batch", USUAL, USUAL)
        value = METRICS[metric].floor * 10
        now = [] if change is None else [value * change]
        base, after = {**duet.base, metric: [value]}, {**duet.now, metric: now}
        duets.append(replace(duet, base=base, now=after))
    return duets


def outcome_of(metric: str, duets: list[Duet]) -> Comparison:
    """Return the comparison of one metric of loading."""
    found = decide("load_s_per_batch", duets)
    return next(each for each in found.metrics if each.metric == metric)


ONCE_NAMES = [metric.name for metric in ONCE]


@pytest.mark.parametrize("name", ONCE_NAMES)
def test_what_a_duet_has_once_is_held_to_the_bound_of_baselines(name: str) -> None:
    """Start and memory regress beyond their bound, improve, or pass after as few duets as times."""
    bound = 1 + METRICS[name].bound
    assert decide("load_s_per_batch", once(name, 1.0)).is_open
    same = decide("load_s_per_batch", once(name, 1.0, 1.0))
    assert (same.outcome, same.is_open) == (Outcome.PASS, False)
    assert outcome_of(name, once(name, *[1.1 * bound] * 3)).outcome is Outcome.REGRESSED
    assert outcome_of(name, once(name, *[0.9 / bound] * 3)).outcome is Outcome.IMPROVED
    assert outcome_of(name, once(name, *[0.9 * bound] * 5)).outcome is not Outcome.REGRESSED
    assert outcome_of(name, once(name, *[0.9 * bound] * 5)).bound == pytest.approx(bound)


@pytest.mark.parametrize("name", ONCE_NAMES)
def test_what_is_not_decided_once_is_inconclusive(name: str) -> None:
    """Neither spread duets nor duets without a value pass; without it, the times decide."""
    bound = 1 + METRICS[name].bound
    far = decide("load_s_per_batch", once(name, bound, 1 / bound, bound, 1 / bound, bound))
    assert (far.outcome, far.metric, far.is_open) == (Outcome.INCONCLUSIVE, name, False)
    none = outcome_of(name, once(name, None, None))
    assert (none.outcome, none.is_open) == (Outcome.NOT_COMPARED, False)
    assert decide("load_s_per_batch", once(name, None, None)).outcome is Outcome.PASS


def test_a_version_without_them_leaves_start_and_memory_uncompared() -> None:
    """An older version, or a kernel that does not count pages, has no such figures."""
    duet = make_duet("load_s_per_batch", USUAL, USUAL)
    timed = {name: values for name, values in duet.base.items() if name not in ONCE_NAMES}
    found = decide("load_s_per_batch", [replace(duet, base=timed)] * 3)
    assert (found.outcome, found.is_open) == (Outcome.PASS, False)
    left = [each for each in found.metrics if each.outcome is Outcome.NOT_COMPARED]
    assert [each.metric for each in left] == ONCE_NAMES
    assert all("not every session has it" in each.reason for each in left)


def test_a_version_without_a_metric_is_not_compared_by_it() -> None:
    """An older version may lack a metric of each slice."""
    duet = make_duet("train_s_per_step", USUAL, USUAL)
    older = {name: values for name, values in duet.base.items() if name != "sync_probe_fraction"}
    found = decide("train_s_per_step", [replace(duet, base=older)] * 2)
    assert (found.outcome, found.is_open) == (Outcome.PASS, False)
    (left,) = (each for each in found.metrics if each.metric == "sync_probe_fraction")
    assert left.outcome is Outcome.NOT_COMPARED
    assert "not every session has it" in left.reason


@pytest.mark.usefixtures("remembered")
@pytest.mark.parametrize("name", ONCE_NAMES)
@pytest.mark.parametrize("spread", [0.5, 1.0, 2.0])
def test_identical_starts_and_memory_seldom_regress(name: str, spread: float) -> None:
    """Even if processes spread twice as widely as expected, at most 1% are alarms."""
    rng, alarms = np.random.default_rng(1), 0
    for _ in range(200):
        drawn = rng.normal(0, spread * METRICS[name].process_spread, MAX_DUETS)
        duets = iter(once(name, *np.exp(drawn)))
        found = decide_in_duets("load_s_per_batch", [], partial(next, duets))
        alarms += found.outcome is Outcome.REGRESSED
    assert alarms <= 2
