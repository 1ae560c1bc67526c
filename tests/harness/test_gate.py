"""The direction and the tolerance of every comparison with a baseline."""

from dataclasses import replace
from typing import Any

import pytest

from netpipe.harness.gate import GATED, Metric, Outcome, _compare, compare
from netpipe.harness.measurement import Interval, Measurement
from tests.harness.measurements import CPU, EMULATED, GPU, HOST, make_measurement, spread

BASELINE = (make_measurement(),) * 3
BASE_S = {"load_s": 0.010, "step_s": 0.030, "train_s": 0.030, "load_cpu_s": 0.008}
SCALED = {  # each metric: the quantity it decides on, and what to scale to move it alone
    "load_s_per_batch": ("load_s_per_batch", ("load_s",)),
    "load_cpu_ratio": ("load_s_per_batch", ("load_cpu_s",)),
    "step_s": ("step_s", ("step_s",)),
    "train_s_per_step": ("train_s_per_step", ("step_s", "train_s")),
    "accelerator_utilisation": ("train_s_per_step", ("train_s",)),
}
WALL = ("load_s_per_batch", "step_s", "train_s_per_step")


def scaled(metric: str, factor: float, **others: Any) -> Measurement:
    """Make a measurement on which one metric is worse by a factor."""
    _, names = SCALED[metric]
    times: dict[str, Any] = {name: BASE_S[name] * factor for name in names}
    return make_measurement(**times, **others)


@pytest.mark.parametrize(
    ("metric", "factor", "outcome"),
    [
        *((wall, 1.31, Outcome.REGRESSED) for wall in WALL),
        *((wall, 1.29, Outcome.PASS) for wall in WALL),
        *((wall, 0.50, Outcome.PASS) for wall in WALL),
        ("load_cpu_ratio", 1.11, Outcome.REGRESSED),
        ("load_cpu_ratio", 1.09, Outcome.PASS),
        ("load_cpu_ratio", 0.92, Outcome.PASS),
        ("load_cpu_ratio", 0.90, Outcome.IMPROVED),
        ("accelerator_utilisation", 1.06, Outcome.REGRESSED),
        ("accelerator_utilisation", 1.04, Outcome.PASS),
        ("accelerator_utilisation", 0.50, Outcome.PASS),
    ],
)
def test_slower_is_worse(metric: str, factor: float, outcome: Outcome) -> None:
    """More time than the tolerance allows is REGRESSED; less never is, on every metric."""
    quantity, _ = SCALED[metric]
    comparison = compare(quantity, scaled(metric, factor), BASELINE)
    assert comparison.outcome is outcome
    if outcome is not Outcome.PASS:
        assert comparison.metric == metric
        assert comparison.worse_ratio == pytest.approx(factor)


def test_the_cases_above_know_every_metric() -> None:
    """A metric that is gated has its direction and tolerance tested above."""
    gated = {metric.name: quantity for quantity in GATED for metric in GATED[quantity]}
    assert gated == {metric: quantity for metric, (quantity, _) in SCALED.items()}


def test_an_interval_that_reaches_zero_leaves_it_open() -> None:
    """Three rounds far apart, whose utilisation may be anything, prove no regression."""
    reaches_zero = Interval(median=0.75, low=0.0, high=1.5, n=3)
    now = make_measurement(rounds=3, accelerator_utilisation=reaches_zero)
    assert compare("train_s_per_step", now, BASELINE).outcome is Outcome.INCONCLUSIVE


@pytest.mark.parametrize(
    ("step_s", "outcome"),
    [(0.024, Outcome.REGRESSED), (0.029, Outcome.PASS), (0.036, Outcome.IMPROVED)],
)
def test_a_metric_can_be_better_when_higher(step_s: float, outcome: Outcome) -> None:
    """Headroom falls with the step time: there lower is worse."""
    headroom = Metric("headroom", lower_is_better=False, tolerance=0.1, steady=True)
    comparison = _compare(headroom, make_measurement(step_s=step_s), BASELINE)
    assert comparison.outcome is outcome
    assert comparison.worse_ratio == pytest.approx(0.030 / step_s)


def test_a_comparison_says_what_it_compared() -> None:
    """It holds both values, the factor between them and the bound."""
    comparison = compare("step_s", make_measurement(step_s=0.045), BASELINE, "h200-x1/0001_a.json")
    assert (comparison.now, comparison.then) == (0.045, 0.030)
    assert "step_s is 1.50 x the baseline's (bound 1.30)" in comparison.reason


def test_sessions_that_differ_widen_the_tolerance() -> None:
    """A factor that the baseline's own sessions reached is no regression; a larger one is."""
    sessions = tuple(make_measurement(step_s=one) for one in (0.030, 0.030, 0.045))
    assert compare("step_s", make_measurement(step_s=0.044), sessions).outcome is Outcome.PASS
    assert compare("step_s", make_measurement(step_s=0.046), sessions).outcome is Outcome.REGRESSED


def test_the_baseline_is_the_median_of_its_sessions() -> None:
    """One slow session of three does not move what is compared with."""
    sessions = tuple(make_measurement(step_s=one) for one in (0.030, 0.031, 0.090))
    assert compare("step_s", make_measurement(), sessions).then == 0.031


def test_spread_rounds_leave_it_open() -> None:
    """A median beyond the bound is INCONCLUSIVE while the interval reaches below it."""
    now = make_measurement(step_s=spread(0.031, 0.045, 0.050))
    comparison = compare("step_s", now, BASELINE)
    assert comparison.outcome is Outcome.INCONCLUSIVE
    assert "too spread" in comparison.reason


@pytest.mark.parametrize(
    "elsewhere",
    [
        replace(HOST, cpu="AMD EPYC"),
        replace(HOST, cores=4),
        replace(HOST, memory_bytes=2 * HOST.memory_bytes),
        replace(HOST, container=True),
    ],
)
def test_only_what_is_portable_is_compared_with_another_host_class(elsewhere: Any) -> None:
    """Times and CPU costs of another machine say nothing; how long its device waits does."""
    times: dict[str, Any] = {name: 2 * base for name, base in BASE_S.items()}
    slow = make_measurement(**times, host=elsewhere)
    assert {compare(quantity, slow, BASELINE).outcome for quantity in GATED} == {Outcome.PASS}
    costly = compare("load_s_per_batch", slow, BASELINE)
    assert costly.metric == "load_cpu_ratio"
    assert "another host" in costly.reason
    waiting = compare("train_s_per_step", make_measurement(train_s=0.036, host=elsewhere), BASELINE)
    assert (waiting.outcome, waiting.metric) == (Outcome.REGRESSED, "accelerator_utilisation")


def test_a_host_that_booted_again_is_the_same() -> None:
    """Some kB less of memory make no other host class."""
    host = replace(HOST, memory_bytes=HOST.memory_bytes - 4096)
    slow = make_measurement(step_s=0.060, host=host)
    assert compare("step_s", slow, BASELINE).outcome is Outcome.REGRESSED


@pytest.mark.parametrize(
    ("device", "factor", "outcome"),
    [
        (GPU, 2.9, Outcome.REGRESSED),
        (EMULATED, 2.9, Outcome.REGRESSED),
        (CPU, 1.2, Outcome.PASS),
        (CPU, 2.9, Outcome.INCONCLUSIVE),
        (CPU, 3.1, Outcome.REGRESSED),
    ],
)
@pytest.mark.parametrize("metric", WALL)
def test_wall_time_proves_less_where_the_cores_are_shared(
    metric: str, device: Any, factor: float, outcome: Outcome
) -> None:
    """On a CPU device only a wall time beyond three times the baseline's is REGRESSED."""
    sessions = (make_measurement(device=device),)
    quantity, _ = SCALED[metric]
    comparison = compare(quantity, scaled(metric, factor, device=device), sessions)
    assert comparison.outcome is outcome


def test_utilisation_proves_less_where_the_cores_are_shared() -> None:
    """A CPU device that waits may wait for its own cores; a CPU cost of loading is a proof."""
    sessions = (make_measurement(device=CPU),)
    outcomes = {
        metric: compare(SCALED[metric][0], scaled(metric, 1.2, device=CPU), sessions).outcome
        for metric in ("accelerator_utilisation", "load_cpu_ratio")
    }
    assert outcomes == {
        "accelerator_utilisation": Outcome.INCONCLUSIVE,
        "load_cpu_ratio": Outcome.REGRESSED,
    }


def test_only_like_is_compared_with_like() -> None:
    """Other data or another configuration, or no session of the benchmark, is NO_BASELINE."""
    slow = make_measurement(step_s=0.090, fingerprint="data-2 config-1")
    for sessions, words in ((BASELINE, "other data"), ((), "no such benchmark")):
        comparison = compare("step_s", slow, sessions, "0001_a.json")
        assert comparison.outcome is Outcome.NO_BASELINE
        assert (comparison.now, comparison.then, comparison.worse_ratio) == (0.090, None, None)
        assert words in comparison.reason
        assert "0001_a.json" in comparison.reason


@pytest.mark.parametrize(
    ("changed", "outcome", "metric"),
    [
        ({"load_s": 0.020, "load_cpu_s": 0.004}, Outcome.REGRESSED, "load_s_per_batch"),
        ({"load_s": 0.005, "load_cpu_s": 0.016}, Outcome.REGRESSED, "load_cpu_ratio"),
        (
            {"load_s": spread(0.011, 0.020, 0.020), "load_cpu_s": 0.004},
            Outcome.INCONCLUSIVE,
            "load_s_per_batch",
        ),
        (
            {"load_s": spread(0.011, 0.020, 0.020), "load_cpu_s": 0.016},
            Outcome.REGRESSED,
            "load_cpu_ratio",
        ),
        ({"load_s": 0.005, "load_cpu_s": 0.004}, Outcome.IMPROVED, "load_cpu_ratio"),
        ({}, Outcome.PASS, "load_cpu_ratio"),
    ],
)
def test_the_worst_metric_decides(changed: dict[str, Any], outcome: Outcome, metric: str) -> None:
    """Of a quantity's metrics the worst outcome counts; among equals the most telling one."""
    comparison = compare("load_s_per_batch", make_measurement(**changed), BASELINE)
    assert (comparison.outcome, comparison.metric) == (outcome, metric)
