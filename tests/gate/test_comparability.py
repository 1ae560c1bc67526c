"""Comparability of metrics between hosts, devices and data, and their bounds."""

from dataclasses import replace
from math import exp, inf
from typing import Any

import pytest

from netpipe.gate.comparison import BaselineSessions, compare, host_load_change
from netpipe.gate.metrics import GATED, METRICS
from netpipe.gate.outcomes import Outcome
from netpipe.results.measurement import Device, Host, Interval, Rounds
from tests.gate.sessions import (
    BASELINE,
    BOUNDS,
    USUAL,
    WHERE,
    bounds_of,
    compared_cost,
    costing,
    of_metric,
    session,
    stepping,
)
from tests.measurements import CPU, EMULATED, GPU, HOST, make_measurement

# A virtual machine, which may be another one next time.
UNIDENTIFIED = replace(HOST, machine="")

# ---- What the machine explains


@pytest.mark.parametrize(
    ("device", "explained"),
    [
        (GPU, {"load_s_per_batch", "first_batch_s"}),
        (EMULATED, {"load_s_per_batch", "first_batch_s"}),
        (CPU, {"load_s_per_batch", "first_batch_s", "step_s", "train_s_per_step"}),
    ],
)
def test_a_busy_machine_explains_wall_times_of_its_cores(
    device: Device, explained: set[str]
) -> None:
    """With half of the CPU time, a load may take twice as long, but may cost little more.

    A GPU's step does not depend on the host's load.
    """
    calm: dict[str, Any] = {"device": device, "busy_elsewhere_fraction": 0.0}
    strict = bounds_of(calm, calm)
    allowed = bounds_of({**calm, "busy_elsewhere_fraction": 0.5}, calm)
    moved = {name: pytest.approx(2.0 if name in explained else 1.0) for name in USUAL}
    moved["load_cpu_ratio"] = pytest.approx(exp(0.075))
    assert {name: allowed[name] / strict[name] for name in USUAL} == moved


@pytest.mark.parametrize(
    ("busy_now", "busy_then", "slower", "outcome"),
    [
        (0.5, 0.0, 2.1, Outcome.PASS),
        (0.5, 0.0, 2.3, Outcome.REGRESSED),
        (0.5, 0.5, 1.2, Outcome.REGRESSED),
        (0.0, 0.5, 1.09, Outcome.PASS),
        (1.0, 0.0, 10.9, Outcome.PASS),
        (1.0, 0.0, 11.1, Outcome.REGRESSED),
    ],
)
def test_only_what_is_busier_than_then_explains(
    busy_now: float, busy_then: float, slower: float, outcome: Outcome
) -> None:
    """A machine as busy as the baseline's explains nothing, and a calmer one accuses nobody."""
    load = {"load_s_per_batch": 0.010 * slower}
    now = [session(load, busy_elsewhere_fraction=busy_now)] * 2
    then = [session(busy_elsewhere_fraction=busy_then)] * 10
    assert compare("load_s_per_batch", now, BaselineSessions(WHERE, then)).outcome is outcome


NONE = (0.0,) * 6
CONSTANT = (0.010,) * 6


@pytest.mark.parametrize(
    ("metric", "rounds_now", "rounds_then", "times_now_s", "explained"),
    [
        ("load_s_per_batch", (0.0, 0.5, 0.5, 0.5, 0.5, 0.0), NONE, CONSTANT, 2.0),
        (
            "load_s_per_batch",
            (0.0, 0.0, 0.0, 0.5, 0.5, 0.5),
            NONE,
            (0.010, 0.010, 0.010, 0.020, 0.020, 0.020),
            1.5,
        ),
        # Unchanged code beside a program that loads a core now and then.
        (
            "load_s_per_batch",
            (0.07, 0.49, 0.0, 0.0, 0.49, 0.34),
            NONE,
            (0.00562, 0.00756, 0.00348, 0.00312, 0.00684, 0.00591),
            1.57,
        ),
        # The rounds beside other programs are not slower, so these explain little.
        ("load_s_per_batch", (0.0, 0.0, 0.0, 0.0, 0.5, 0.5), NONE, CONSTANT, 1.0),
        ("load_s_per_batch", NONE, (0.5,) * 6, CONSTANT, 0.5),
        ("load_s_per_batch", (0.5,) * 6, (), CONSTANT, 1.0),
        ("first_batch_s", (0.5,) * 6, NONE, CONSTANT, 1.0),
    ],
)
def test_the_load_of_other_programs_is_taken_out_of_each_round_of_loading(
    metric: str,
    rounds_now: tuple[float, ...],
    rounds_then: tuple[float, ...],
    times_now_s: tuple[float, ...],
    explained: float,
) -> None:
    """Sessions count as a whole for other metrics, or if some lack the fractions of rounds."""
    whole = session(busy_elsewhere_fraction=0.3)
    now, then = (
        [replace(whole, rounds=Rounds(load_s_per_batch=times_s, busy_elsewhere_fraction=fractions))]
        for times_s, fractions in ((times_now_s, rounds_now), (CONSTANT, rounds_then))
    )
    change = exp(host_load_change(METRICS[metric], now, then))
    assert change == pytest.approx(explained, rel=0.01)


@pytest.mark.parametrize(
    ("slower", "outcome"), [(1.6, Outcome.INCONCLUSIVE), (2.6, Outcome.REGRESSED)]
)
def test_only_a_change_that_nothing_explains_is_evidence(slower: float, outcome: Outcome) -> None:
    """Sessions that differ by 10% prove nothing if they are 12% slower than the load explains."""
    then = [
        session({"load_s_per_batch": 0.010 * factor}, busy_elsewhere_fraction=0.0)
        for factor in (0.88, 0.91, 0.94, 0.97, 0.99, 1.01, 1.03, 1.06, 1.09, 1.12)
    ]
    now = [session({"load_s_per_batch": 0.010 * slower}, busy_elsewhere_fraction=0.3)] * 2
    found = compare("load_s_per_batch", now, BaselineSessions(WHERE, then))
    assert of_metric(found, "load_s_per_batch").outcome is outcome


@pytest.mark.parametrize(
    ("device", "explained"),
    [
        (GPU, {"load_s_per_batch", "first_batch_s"}),
        (CPU, {"load_s_per_batch", "first_batch_s", "step_s", "train_s_per_step"}),
    ],
)
def test_a_slower_machine_explains_wall_times_of_its_cores(
    device: Device, explained: set[str]
) -> None:
    """If the reference loader takes 1.4 x the CPU time, a load may take 1.4 x the wall time."""
    usual: dict[str, Any] = {"device": device, "host": UNIDENTIFIED}
    slow = {**usual, "turns_reference_cpu_s": 0.0056}
    like = bounds_of(usual, usual)
    widened = {name: bound / like[name] for name, bound in bounds_of(slow, usual).items()}
    assert widened == {name: pytest.approx(1.4 if name in explained else 1.0) for name in USUAL}


@pytest.mark.parametrize(
    ("changed", "slower", "outcome"),
    [
        ({"turns_reference_cpu_s": 0.0056}, 1.5, Outcome.PASS),
        ({"turns_reference_cpu_s": 0.0056}, 1.6, Outcome.REGRESSED),
        ({}, 1.15, Outcome.REGRESSED),
        ({"turns_reference_cpu_s": 0.0028}, 1.09, Outcome.PASS),
        ({"turns_reference_cpu_s": 0.0056, "host": HOST}, 1.15, Outcome.REGRESSED),
    ],
)
def test_only_a_slower_machine_explains(
    changed: dict[str, Any], slower: float, outcome: Outcome
) -> None:
    """A faster machine accuses nobody, and the same machine explains nothing."""
    load, host = {"load_s_per_batch": 0.010 * slower}, changed.get("host", UNIDENTIFIED)
    now = [session(load, **{"host": host, **changed})] * 2
    baseline = BaselineSessions(WHERE, [session(host=host)] * 10)
    assert of_metric(compare("load_s_per_batch", now, baseline), "load_s_per_batch").outcome is (
        outcome
    )


@pytest.mark.parametrize(
    "changed",
    [
        {"calibration": "another"},
        {"turns": ()},
        {"versions": {**make_measurement().versions, "numpy": "9"}},
    ],
)
def test_an_unknown_speed_explains_nothing(changed: dict[str, Any]) -> None:
    """Another reference loader, or another NumPy, does not tell how fast a machine is."""
    slow = session({"load_s_per_batch": 0.0115}, host=UNIDENTIFIED, turns_reference_cpu_s=0.0056)
    baseline = BaselineSessions(WHERE, [session(host=UNIDENTIFIED)] * 10)
    comparison = compare("load_s_per_batch", [replace(slow, **changed)] * 2, baseline)
    assert of_metric(comparison, "load_s_per_batch").outcome is Outcome.REGRESSED


@pytest.mark.parametrize(("slower", "is_named"), [(1.05, False), (1.3, True), (1.6, True)])
def test_a_slower_machine_is_named_if_it_matters(slower: float, is_named: bool) -> None:
    """The reason of a change beyond the usual bound names the CPU time of the reference loader."""
    now = session(
        {"load_s_per_batch": 0.010 * slower}, host=UNIDENTIFIED, turns_reference_cpu_s=0.0056
    )
    baseline = BaselineSessions(WHERE, [session(host=UNIDENTIFIED)] * 10)
    comparison = compare("load_s_per_batch", [now] * 2, baseline)
    reason = of_metric(comparison, "load_s_per_batch").reason
    assert (
        reason.endswith("(bound 1.54; the reference loader takes 1.40 x the CPU time)") is is_named
    )


# ---- What is not compared


@pytest.mark.parametrize(
    "elsewhere",
    [
        replace(HOST, cpu="AMD EPYC"),
        replace(HOST, cores=4),
        replace(HOST, memory_bytes=2 * HOST.memory_bytes),
        replace(HOST, container=True),
    ],
)
def test_only_what_is_portable_is_compared_with_another_host_class(elsewhere: Host) -> None:
    """Times and CPU costs of another host class are not compared; the device's waits are."""
    bad = {metric: too_bad for _, metric, _, too_bad, _ in BOUNDS}
    for quantity, metrics in GATED.items():
        every = compare(quantity, [session(bad, host=elsewhere)] * 2, BASELINE).metrics
        outcomes = {found.metric: found.outcome for found in every}
        portable = {"accelerator_utilisation", "sync_probe_fraction"}
        assert outcomes == {
            metric.name: Outcome.REGRESSED if metric.name in portable else Outcome.NOT_COMPARED
            for metric in metrics
        }
    step = compare("step_s", [session(bad, host=elsewhere)], BASELINE)
    assert (step.outcome, step.worse_ratio, step.is_open) == (Outcome.NOT_COMPARED, None, False)
    assert step.reason.startswith("step_s ")
    assert WHERE in step.reason
    assert "another host (" in step.reason
    assert not step.is_reported_only


def test_another_host_is_named_before_another_reference() -> None:
    """A cost from another host is not compared for that reason, even if calibrated otherwise."""
    elsewhere = session(host=replace(HOST, cores=64), calibration="clock/1")
    cost = of_metric(
        compared_cost(1.0, baseline=BaselineSessions(WHERE, [elsewhere])), "load_cpu_ratio"
    )
    assert "another host (2 cores now, 64 then" in cost.reason


@pytest.mark.parametrize(
    ("now", "then"), [("another", "this one"), ("", "this one"), ("this one", ""), ("", "")]
)
def test_machines_of_one_class_differ_by_something(now: str, then: str) -> None:
    """On a possibly different machine, costs and times may rise by 10%, but waits may not."""
    strict = bounds_of({}, {})
    allowed = bounds_of(*({"host": replace(HOST, machine=machine)} for machine in (now, then)))
    portable = {"accelerator_utilisation", "sync_probe_fraction"}
    assert allowed == {
        name: pytest.approx(strict[name] if name in portable else max(strict[name], 1.1))
        for name in USUAL
    }
    assert strict["step_s"] < 1.1


@pytest.mark.parametrize("gib", [15.6, 15.9, 16.1, 17.0])
def test_a_little_less_memory_is_no_other_host(gib: float) -> None:
    """Hosts with nearly equal memory are of one class, even across a whole GiB."""
    now, then = (replace(HOST, memory_bytes=int(size * 2**30)) for size in (gib, 16.6))
    slow = stepping(2.0, 2.0, host=now)
    baseline = BaselineSessions(WHERE, [session(host=then)] * 10)
    assert compare("step_s", slow, baseline).outcome is Outcome.REGRESSED


@pytest.mark.parametrize(("calibration", "words"), [("clock/1", "clock/1"), ("", "another")])
def test_a_cost_by_another_reference_is_not_judged(calibration: str, words: str) -> None:
    """Costs calibrated by different loaders are not judged; times still are."""
    baseline = BaselineSessions(WHERE, [session(calibration=calibration)] * 10)
    costly = compare("load_s_per_batch", costing(3.0), baseline)
    cost = of_metric(costly, "load_cpu_ratio")
    assert (costly.outcome, costly.metric) == (Outcome.PASS, "load_s_per_batch")
    assert (cost.outcome, cost.is_open) == (Outcome.NOT_COMPARED, False)
    assert WHERE in cost.reason
    assert f"calibrated by {words}" in cost.reason
    slow = [session({"load_cpu_ratio": 3.0, "load_s_per_batch": 0.020})] * 2
    comparison = compare("load_s_per_batch", slow, baseline)
    assert (comparison.outcome, comparison.metric) == (Outcome.REGRESSED, "load_s_per_batch")


@pytest.mark.parametrize(
    ("changed", "outcome"),
    [
        ({"accelerator_utilisation": 0.2}, Outcome.PASS),
        ({"sync_probe_fraction": 1.0}, Outcome.REGRESSED),
    ],
)
def test_a_device_that_shares_its_cores_proves_less(
    changed: dict[str, float], outcome: Outcome
) -> None:
    """On a CPU device, waits prove nothing, but a forced sync still counts."""
    then = [session(device=CPU)] * 10
    now = [session(changed, device=CPU)] * 2
    comparison = compare("train_s_per_step", now, BaselineSessions(WHERE, then))
    assert comparison.outcome is outcome
    utilisation = of_metric(comparison, "accelerator_utilisation")
    assert utilisation.outcome is Outcome.NOT_COMPARED
    assert utilisation.is_reported_only
    assert "reported only" in utilisation.reason


def test_what_is_reported_only_keeps_its_figure() -> None:
    """A metric that is only reported still has its change."""
    then = BaselineSessions(WHERE, [session(device=CPU)] * 10)
    now = [session({"accelerator_utilisation": 0.6}, device=CPU)]
    (utilisation, *_) = compare("train_s_per_step", now, then).metrics
    assert (utilisation.outcome, utilisation.worse_ratio) == (Outcome.NOT_COMPARED, 1.25)
    assert utilisation.is_reported_only
    for value in ("accelerator_utilisation", "0.80", WHERE):
        assert value in utilisation.reason


@pytest.mark.parametrize("metric", ["peak_pss_bytes", "growth_bytes_per_batch"])
@pytest.mark.parametrize(("is_new", "whose"), [(True, "the baseline"), (False, "this run")])
def test_what_only_one_side_has_is_not_compared(metric: str, *, is_new: bool, whose: str) -> None:
    """A metric that older sessions lack is neither PASS nor a failure; the others decide."""
    missing: dict[str, Any] = {metric: None}
    has = [replace(session(), **missing)] * 3
    now, then = ([session()] * 2, has) if is_new else (has, [session()] * 3)
    comparison = compare("load_s_per_batch", now, BaselineSessions(WHERE, then))
    found = of_metric(comparison, metric)
    assert (found.outcome, found.is_open, found.worse) == (Outcome.NOT_COMPARED, False, None)
    assert f"{whose} does not have it" in found.reason
    assert (found.then is None) is is_new
    assert comparison.outcome is Outcome.PASS


@pytest.mark.parametrize("is_now", [True, False])
def test_a_figure_that_one_of_several_sessions_lacks_is_not_judged(*, is_now: bool) -> None:
    """Growth that is unknown after too few rounds does not count as zero."""
    unknown = replace(session(), growth_bytes_per_batch=Interval(9e6, -inf, inf, 3))
    usual, lacking = [session()] * 3, [session(), unknown, session()]
    now, then = (lacking, usual) if is_now else (usual, lacking)
    comparison = compare("load_s_per_batch", now, BaselineSessions(WHERE, then))
    found = of_metric(comparison, "growth_bytes_per_batch")
    assert found.outcome is Outcome.NOT_COMPARED
    assert "not every session has it" in found.reason


@pytest.mark.parametrize("quantity", GATED)
def test_a_benchmark_without_a_session_has_no_baseline(quantity: str) -> None:
    """A benchmark that the baseline lacks is NO_BASELINE."""
    slow = session({quantity: 0.090})
    comparison = compare(quantity, [session(), slow], BaselineSessions(WHERE, ()))
    assert comparison.outcome is Outcome.NO_BASELINE
    assert (comparison.now, comparison.then, comparison.worse_ratio) == (0.090, None, None)
    assert comparison.reason == f"{WHERE} has no such benchmark"
    assert comparison.metric == ""
    assert (comparison.worse, comparison.is_open, comparison.metrics) == (None, False, ())


@pytest.mark.parametrize("quantity", GATED)
def test_other_data_are_not_compared(quantity: str) -> None:
    """With other data or another configuration, no metric is judged."""
    baseline = BaselineSessions(WHERE, [session(fingerprint="data-2 config-1")] * 10)
    comparison = compare(quantity, [session({quantity: 0.090})] * 2, baseline)
    assert {found.outcome for found in comparison.metrics} == {Outcome.NOT_COMPARED}
    assert (comparison.outcome, comparison.worse_ratio) == (Outcome.NOT_COMPARED, None)
    assert "other data" in comparison.reason
    assert not comparison.is_open
