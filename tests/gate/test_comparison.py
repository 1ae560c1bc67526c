"""Comparisons of sessions with a baseline: bounds, directions, and when to measure again."""

from dataclasses import replace
from functools import partial
from math import exp, isfinite, nan
from pathlib import Path
from typing import Any

import pytest

from netpipe.gate.baseline import load
from netpipe.gate.comparison import MAX_SESSIONS, BaselineSessions, compare, compare_until_decided
from netpipe.gate.metrics import GATED
from netpipe.gate.outcomes import Comparison, Outcome
from netpipe.results.measurement import Device, Interval
from tests.gate.sessions import (
    BASELINE,
    BOUNDS,
    QUANTITY,
    USUAL,
    WHERE,
    compared_cost,
    costing,
    of_metric,
    session,
    stepping,
    worse_of,
)
from tests.measurements import CPU, GPU, HOST

# ---- Each metric: its direction and its bound


@pytest.mark.parametrize(("quantity", "metric", "allowed", "too_bad", "better"), BOUNDS)
def test_every_metric_has_its_direction_and_its_bound(
    quantity: str, metric: str, allowed: float, too_bad: float, better: float
) -> None:
    """Worse by more than the bound is REGRESSED, worse by less PASS, better by more IMPROVED."""
    expected = {
        allowed: Outcome.PASS,
        too_bad: Outcome.REGRESSED,
        better: Outcome.IMPROVED,
        USUAL[metric]: Outcome.PASS,
    }
    for value, outcome in expected.items():
        comparison = compare(quantity, [session({metric: value})] * 2, BASELINE)
        assert comparison.outcome is outcome, value
        if outcome is not Outcome.PASS:
            assert (comparison.metric, comparison.now) == (metric, value)
            assert comparison.then == USUAL[metric]


@pytest.mark.parametrize("recorded", [1, 3])
@pytest.mark.parametrize("is_now", [False, True])
@pytest.mark.parametrize("metric", USUAL)
def test_what_is_no_number_never_passes(metric: str, is_now: bool, recorded: int) -> None:
    """NaN in this run or in the baseline is INCONCLUSIVE, because no bound applies to it."""
    odd, usual = session({metric: nan}), session()
    now, then = (odd, usual) if is_now else (usual, odd)
    baseline = BaselineSessions(WHERE, [then] * recorded)
    comparison = compare(QUANTITY[metric], [now] * 3, baseline)
    assert of_metric(comparison, metric).outcome is Outcome.INCONCLUSIVE


def test_sessions_of_any_spread_can_be_compared() -> None:
    """The interval of a ratio stays finite even if the sessions differ arbitrarily."""
    baseline = BaselineSessions(WHERE, stepping(1e-9, 1, 1e9))
    assert isfinite(worse_of(compare("step_s", stepping(1), baseline)).high)


def test_bounds_are_tested_for_every_gated_metric() -> None:
    """`BOUNDS` and `USUAL` name exactly the gated metrics."""
    gated = {metric.name: quantity for quantity, metrics in GATED.items() for metric in metrics}
    assert gated == QUANTITY
    assert set(gated) == set(USUAL)


def test_a_fraction_is_compared_by_its_difference() -> None:
    """A loop that begins to wait for every step regresses, even if no time changes."""
    waiting, never = (session({"sync_probe_fraction": fraction}) for fraction in (1.0, 0.0))
    comparison = compare("train_s_per_step", [waiting] * 2, BaselineSessions(WHERE, [never] * 10))
    assert (comparison.outcome, comparison.metric) == (Outcome.REGRESSED, "sync_probe_fraction")
    assert comparison.worse_ratio == 2.0
    for value in ("sync_probe_fraction", "+1.00", WHERE, "+0.25"):
        assert value in comparison.reason


@pytest.mark.parametrize(
    ("metric", "value", "reason"),
    [
        ("load_cpu_ratio", 3.0, "load_cpu_ratio is 1.50 x that of {} (bound 1.03)"),
        ("accelerator_utilisation", 0.6, "accelerator_utilisation is 0.80 x that of {} (bound 0.9"),
    ],
)
def test_the_reason_names_what_was_compared(metric: str, value: float, reason: str) -> None:
    """The reason gives the factor of the value, the baseline's name and the bound."""
    comparison = compare(QUANTITY[metric], [session({metric: value})] * 2, BASELINE)
    assert comparison.reason.startswith(reason.format(WHERE))
    assert (comparison.metric, comparison.baseline) == (metric, WHERE)
    worse = max(value / USUAL[metric], USUAL[metric] / value)
    assert comparison.worse_ratio == pytest.approx(worse)


@pytest.mark.parametrize(
    ("changed", "outcome", "metric"),
    [
        ({"load_s_per_batch": 0.02, "load_cpu_ratio": 1.0}, Outcome.REGRESSED, "load_s_per_batch"),
        ({"load_s_per_batch": 0.005, "load_cpu_ratio": 3.0}, Outcome.REGRESSED, "load_cpu_ratio"),
        ({"load_s_per_batch": 0.02, "load_cpu_ratio": 3.0}, Outcome.REGRESSED, "load_cpu_ratio"),
        ({"load_s_per_batch": 0.005}, Outcome.IMPROVED, "load_s_per_batch"),
        ({}, Outcome.PASS, "load_cpu_ratio"),
    ],
)
def test_the_worst_metric_decides(changed: dict[str, Any], outcome: Outcome, metric: str) -> None:
    """The worst outcome of a quantity's metrics counts; among equal ones, the first listed."""
    comparison = compare("load_s_per_batch", [session(changed)] * 2, BASELINE)
    assert (comparison.outcome, comparison.metric) == (outcome, metric)
    assert replace(comparison, metrics=(), is_open=False) == of_metric(comparison, metric)
    gated = [metric.name for metric in GATED["load_s_per_batch"]]
    assert [found.metric for found in comparison.metrics] == gated


# ---- Sessions


def test_medians_over_sessions_are_compared() -> None:
    """One outlier among a baseline's sessions, or among three of this run, changes nothing."""
    baseline = BaselineSessions(WHERE, costing(*[1.0] * 6, 9.0, 1.1, 1.1))
    comparison = compared_cost(1.0, 9.0, 1.0, baseline=baseline)
    assert (comparison.now, comparison.then) == (2.0, 2.0)
    assert comparison.outcome is Outcome.PASS


@pytest.mark.parametrize("factor", [1.04, 1.5, 100.0])
def test_one_session_is_never_enough(factor: float) -> None:
    """One bad session, however bad, only leads to a second one."""
    alone, twice = compared_cost(factor), compared_cost(factor, factor)
    assert (alone.outcome, alone.is_open) == (Outcome.INCONCLUSIVE, True)
    assert (twice.outcome, twice.is_open) == (Outcome.REGRESSED, False)


@pytest.mark.parametrize(
    ("later", "outcome", "sessions"),
    [
        ([1.5, 0.0], Outcome.REGRESSED, 2),
        ([1.0, 1.0, 0.0], Outcome.PASS, 3),
        ([0.3, 0.0], Outcome.PASS, 2),
    ],
)
def test_more_sessions_decide(later: list[float], outcome: Outcome, sessions: int) -> None:
    """Sessions are measured only until they decide; `measure_again` gets the open comparison."""
    remaining, measured, given = costing(*later), costing(1.5), []

    def measure_again(comparison: Comparison) -> None:
        given.append(comparison)
        measured.append(remaining.pop(0))

    found = compare_until_decided(
        lambda: compare("load_s_per_batch", measured, BASELINE), measure_again
    )
    assert (found.outcome, len(measured)) == (outcome, sessions)
    assert found == compare("load_s_per_batch", measured, BASELINE)
    assert all(comparison.is_open for comparison in given)
    assert given[0] == compared_cost(1.5)


def test_a_clear_comparison_needs_no_other_session() -> None:
    """An unchanged loader is not measured again, and neither is one that costs half."""

    def measure_again(_: Comparison) -> None:
        raise AssertionError("the comparison is not open")

    for factor, outcome in ((1.0, Outcome.PASS), (0.5, Outcome.IMPROVED)):
        now = costing(factor)
        compare_all = partial(compare, "load_s_per_batch", now, BASELINE)
        assert compare_until_decided(compare_all, measure_again).outcome is outcome


def test_spread_sessions_stay_open_until_the_last() -> None:
    """Sessions that contradict each other are INCONCLUSIVE, and final after the fifth."""
    factors = [3.0, 0.5, 3.0, 0.5, 1.2]
    for sessions in range(1, MAX_SESSIONS + 1):
        comparison = compared_cost(*factors[:sessions])
        assert comparison.outcome is Outcome.INCONCLUSIVE
        assert comparison.is_open is (sessions < 5)
    assert "5 sessions" in comparison.reason


def test_an_early_alarm_needs_more_evidence_than_the_last() -> None:
    """A change that is REGRESSED at the fifth session is still open at the fourth."""
    baseline = BaselineSessions(WHERE, costing(*[exp(0.02), exp(-0.02)] * 5))
    early, last = (compared_cost(*[exp(0.04)] * n, baseline=baseline) for n in (4, 5))
    assert (early.outcome, early.is_open) == (Outcome.INCONCLUSIVE, True)
    assert worse_of(of_metric(early, "load_cpu_ratio")).low > 1
    assert (last.outcome, last.is_open) == (Outcome.REGRESSED, False)


@pytest.mark.parametrize(
    ("factors", "is_open"),
    [
        ([1.01], False),
        ([1.02], True),
        ([1.02] * 2, True),
        ([1.02] * 3, False),
        ([0.9], False),
    ],
)
def test_a_suspicion_opens_a_pass(factors: list[float], is_open: bool) -> None:
    """If the first session is worse by more than half the bound, two more are measured."""
    comparison = compared_cost(*factors)
    assert comparison.outcome in {Outcome.PASS, Outcome.IMPROVED}
    assert comparison.is_open is is_open


def test_the_baselines_own_spread_is_no_change() -> None:
    """Sessions that differ no more than the baseline's own sessions do are not REGRESSED."""
    spread = BaselineSessions(WHERE, costing(*[1.0, 1.3, 0.8] * 3))
    assert compared_cost(*[1.1] * 5, baseline=spread).outcome is Outcome.INCONCLUSIVE
    assert compared_cost(*[1.1] * 5).outcome is Outcome.REGRESSED


@pytest.mark.parametrize(
    ("recorded", "factor", "outcome"),
    [
        (1, 1.3, Outcome.INCONCLUSIVE),
        (2, 1.2, Outcome.INCONCLUSIVE),
        (2, 1.3, Outcome.REGRESSED),
        (3, 1.3, Outcome.REGRESSED),
        (1, 3.0, Outcome.REGRESSED),
        (2, 3.0, Outcome.REGRESSED),
        (1, 0.8, Outcome.PASS),
        (3, 0.8, Outcome.IMPROVED),
    ],
)
def test_a_baseline_of_one_or_two_sessions_proves_little(
    recorded: int, factor: float, outcome: Outcome
) -> None:
    """The spread of one or two sessions is assumed, and only a large change exceeds it."""
    baseline = BaselineSessions(WHERE, costing(*[1.0] * recorded))
    assert compared_cost(*[factor] * 5, baseline=baseline).outcome is outcome


def test_identical_sessions_have_an_interval() -> None:
    """Sessions without any spread give a narrow interval, not an empty one."""
    worse = worse_of(of_metric(compared_cost(*[1.5] * 5), "load_cpu_ratio"))
    assert worse.median == pytest.approx(1.5)
    assert 1.49 < worse.low < 1.499 < 1.501 < worse.high < 1.51
    assert worse.n == 5


# ---- Wall time of steps


STEP_BENCHMARK = "perf_tests/test_training.py::test_step_time"


def compare_slower_steps(device: Device) -> dict[str, Comparison]:
    """Compare a baseline of this repository with slower sessions, all as if from `device`.

    A run of unchanged code beside other programs took 2.02 times as long for a step alone and 1.79
    times as long for a step of training.
    """
    baseline = load(Path("baselines/cpu-intel-xeon-2/0002_packed.json"))
    then = [replace(measured, device=device) for measured in baseline.sessions[STEP_BENCHMARK]]
    now = [
        replace(
            measured,
            step_s=Interval(*(2.02 * 0.0363,) * 3, 9),
            train_s_per_step=Interval(*(1.79 * 0.0404,) * 3, 9),
            busy_elsewhere_fraction=0.25,
        )
        for measured in then[:3]
    ]
    compared = [
        compare(name, now, BaselineSessions(WHERE, then)) for name in ("step_s", "train_s_per_step")
    ]
    return {found.metric: found for comparison in compared for found in comparison.metrics}


def test_steps_on_shared_cores_are_reported_and_not_gated() -> None:
    """Step times on a CPU may double without a failure; their ratio is reported."""
    compared = compare_slower_steps(CPU)
    for name, factor in (("step_s", 2.02), ("train_s_per_step", 1.79)):
        assert compared[name].outcome is Outcome.NOT_COMPARED
        assert compared[name].is_reported_only
        assert not compared[name].is_open
        assert compared[name].worse_ratio == pytest.approx(factor, rel=0.05)
        assert "reported only" in compared[name].reason


@pytest.mark.parametrize("now", [{"fingerprint": "others"}, {"host": replace(HOST, cores=64)}])
def test_reported_step_times_of_other_data_or_hosts_have_no_ratio(now: dict[str, Any]) -> None:
    """Step times on other data or another host have no ratio, and do not fail."""
    baseline = BaselineSessions(WHERE, stepping(1.0, device=CPU))
    comparison = compare("step_s", stepping(2.0, **{"device": CPU, **now}), baseline)
    assert comparison.outcome is Outcome.NOT_COMPARED
    assert comparison.worse_ratio is None
    assert comparison.reason.startswith("step_s ")
    assert WHERE in comparison.reason
    assert comparison.is_reported_only


def test_steps_on_a_gpu_are_gated() -> None:
    """The same step times on a GPU are both REGRESSED."""
    compared = compare_slower_steps(GPU)
    assert compared["step_s"].outcome is Outcome.REGRESSED
    assert compared["train_s_per_step"].outcome is Outcome.REGRESSED


@pytest.mark.parametrize(("slower", "outcome"), [(1.5, Outcome.REGRESSED), (1.0, Outcome.PASS)])
def test_a_baseline_of_one_session_detects_a_large_change(slower: float, outcome: Outcome) -> None:
    """The spread of one session is assumed, and a step that is slower by half exceeds it."""
    now = [session({"step_s": 0.030 * slower})] * MAX_SESSIONS
    assert compare("step_s", now, BaselineSessions(WHERE, [session()])).outcome is outcome


@pytest.mark.parametrize(
    ("factors", "outcome"),
    [((1.6, 1.65), Outcome.REGRESSED), ((1.15, 2.2), Outcome.INCONCLUSIVE)],
)
def test_sessions_that_differ_more_than_assumed_prove_nothing_against_one_session(
    factors: tuple[float, ...], outcome: Outcome
) -> None:
    """The larger of the assumed spread and that of the run counts."""
    now = [session({"step_s": 0.030 * factor}) for factor in factors]
    assert compare("step_s", now, BaselineSessions(WHERE, [session()])).outcome is outcome


@pytest.mark.parametrize(("is_waived", "sessions"), [(False, 2), (True, 3)])
def test_a_proven_regression_is_not_measured_again(is_waived: bool, sessions: int) -> None:
    """A proven regression is final, even if another metric is open, unless it is waived."""
    waiting = session({"sync_probe_fraction": 1.0, "accelerator_utilisation": 0.727})
    now, then = [waiting] * 2, BaselineSessions(WHERE, [session()] * 10)
    compare_all = partial(compare, "train_s_per_step", now, then)
    (undecided,) = (metric for metric in compare_all().metrics if metric.is_open)
    assert undecided.reason.startswith("accelerator_utilisation is 0.97 x")
    compare_until_decided(compare_all, lambda _: now.append(waiting), lambda _: is_waived)
    assert len(now) == sessions


@pytest.mark.parametrize(("slower", "again"), [(1.09, False), (1.11, True)])
def test_a_wall_time_of_the_host_is_suspicious_beyond_its_bound(slower: float, again: bool) -> None:
    """The host's load often causes half the bound, so such a change is not measured again."""
    now = [session({"load_s_per_batch": 0.010 * slower})]
    assert (
        compare("load_s_per_batch", now, BaselineSessions(WHERE, [session()] * 10)).is_open is again
    )
