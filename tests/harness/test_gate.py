"""The direction and the tolerance of every comparison with a baseline."""

from dataclasses import replace
from typing import Any

import pytest

from netpipe.harness.gate import GATED, Metric, Outcome, _compare, compare
from tests.harness.measurements import CPU, EMULATED, GPU, HOST, make_measurement, spread

BASELINE = (make_measurement(),) * 3
BASE_S = {"load_s": 0.010, "step_s": 0.030, "train_s": 0.030, "load_cpu_s": 0.008}
METRIC_OF = {
    "load_s": ("load_s_per_batch", "load_s_per_batch"),
    "load_cpu_s": ("load_s_per_batch", "load_cpu_ratio"),
    "step_s": ("step_s", "step_s"),
    "train_s": ("train_s_per_step", "train_s_per_step"),
}


@pytest.mark.parametrize(
    ("changed", "factor", "outcome"),
    [
        *((wall, 1.31, Outcome.REGRESSED) for wall in ("load_s", "step_s", "train_s")),
        *((wall, 1.29, Outcome.PASS) for wall in ("load_s", "step_s", "train_s")),
        *((wall, 0.50, Outcome.PASS) for wall in ("load_s", "step_s", "train_s")),
        ("load_cpu_s", 1.11, Outcome.REGRESSED),
        ("load_cpu_s", 1.09, Outcome.PASS),
        ("load_cpu_s", 0.92, Outcome.PASS),
        ("load_cpu_s", 0.90, Outcome.IMPROVED),
    ],
)
def test_slower_is_worse(changed: str, factor: float, outcome: Outcome) -> None:
    """More time than the tolerance allows is REGRESSED; less never is, on every metric."""
    quantity, metric = METRIC_OF[changed]
    kwargs: dict[str, Any] = {changed: BASE_S[changed] * factor}
    comparison = compare(quantity, make_measurement(**kwargs), BASELINE)
    assert comparison.outcome is outcome
    if outcome is not Outcome.PASS:
        assert comparison.metric == metric
        assert comparison.worse_ratio == pytest.approx(factor)


def test_the_cases_above_know_every_metric() -> None:
    """A metric that is gated has its direction and tolerance tested above."""
    gated = {(quantity, metric.name) for quantity in GATED for metric in GATED[quantity]}
    assert gated == set(METRIC_OF.values())


@pytest.mark.parametrize(
    ("step_s", "outcome"),
    [(0.024, Outcome.REGRESSED), (0.029, Outcome.PASS), (0.036, Outcome.IMPROVED)],
)
def test_a_metric_can_be_better_when_higher(step_s: float, outcome: Outcome) -> None:
    """Headroom falls with the step time: there lower is worse."""
    headroom = Metric("headroom", lower_is_better=False, tolerance=0.1, wall_time=False)
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
def test_wall_times_of_another_host_class_are_not_compared(elsewhere: Any) -> None:
    """Twice the wall time on another machine says nothing; its CPU ratio still does."""
    slow = make_measurement(load_s=0.020, step_s=0.060, train_s=0.060, host=elsewhere)
    for quantity in GATED:
        assert compare(quantity, slow, BASELINE).outcome is Outcome.PASS
    assert "another host" in compare("step_s", slow, BASELINE).reason
    costly = make_measurement(load_cpu_s=0.010, host=elsewhere)
    assert compare("load_s_per_batch", costly, BASELINE).outcome is Outcome.REGRESSED


def test_a_host_that_booted_again_is_the_same() -> None:
    """Some kB less of memory make no other host class."""
    host = replace(HOST, memory_bytes=HOST.memory_bytes - 4096)
    slow = make_measurement(step_s=0.060, host=host)
    assert compare("step_s", slow, BASELINE).outcome is Outcome.REGRESSED


@pytest.mark.parametrize(
    ("device", "outcome"),
    [(GPU, Outcome.REGRESSED), (EMULATED, Outcome.REGRESSED), (CPU, Outcome.INCONCLUSIVE)],
)
def test_wall_time_proves_nothing_where_the_cores_are_shared(device: Any, outcome: Any) -> None:
    """On a CPU device a slow wall time is never REGRESSED, however slow."""
    sessions = (make_measurement(device=device),)
    for changed, (quantity, _) in METRIC_OF.items():
        if changed != "load_cpu_s":
            kwargs: dict[str, Any] = {changed: BASE_S[changed] * 5}
            slow = make_measurement(device=device, **kwargs)
            assert compare(quantity, slow, sessions).outcome is outcome
    costly = make_measurement(device=device, load_cpu_s=0.010)
    assert compare("load_s_per_batch", costly, sessions).outcome is Outcome.REGRESSED


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
