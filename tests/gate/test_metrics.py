"""The gated metrics: values, directions, and the bounds of changes."""

from dataclasses import fields, replace
from math import exp, inf, isfinite, log, log1p
from typing import Any

import pytest

from netpipe.gate.metrics import (
    GATED,
    GROWTH,
    LOAD_CPU,
    PEAK_MEMORY,
    START,
    STEP,
    SYNCS,
    UTILISATION,
    Metric,
    format_worse_ratio,
)
from netpipe.results.measurement import Interval, Measurement
from tests.measurements import make_measurement

EVERY = [metric for metrics in GATED.values() for metric in metrics]
WORTH = [  # the bound on the same machine, with shared cores, and on another of the class
    ("load_cpu_ratio", 1.03, 1.03, 1.10),
    ("load_s_per_batch", 1.10, 1.30, 1.10),
    ("first_batch_s", 1.50, 1.50, 1.50),
    ("peak_pss_bytes", 1.20, 1.20, 1.20),
    ("growth_bytes_per_batch", 2.0, 2.0, 2.0),
    ("step_s", 1.05, 1.30, 1.10),
    ("accelerator_utilisation", 1.05, 1.05, 1.05),
    ("sync_probe_fraction", 0.25, 0.25, 0.25),
    ("train_s_per_step", 1.05, 1.30, 1.10),
]
by_name = pytest.mark.parametrize("metric", EVERY, ids=[metric.name for metric in EVERY])


@by_name
def test_a_metric_is_a_field_of_a_measurement(metric: Metric) -> None:
    """A metric's value is the session's field of that name, or the median of its interval."""
    measured = make_measurement(train_s=0.040, sync_probe_fraction=0.25)
    found = getattr(measured, metric.name)
    if isinstance(found, Interval):
        found = found.low if metric.is_sure_only else found.median
    value = found
    assert metric.value(measured) == value
    assert value > 0


def test_a_quantity_is_a_duration_with_rounds() -> None:
    """A benchmark's quantity has an interval, and a series of rounds under the same name."""
    measured = make_measurement()
    for quantity in GATED:
        assert isinstance(getattr(measured, quantity), Interval)
        assert getattr(measured.rounds, quantity)
    assert set(GATED) <= {field.name for field in fields(Measurement)}


def test_a_metric_decides_on_one_quantity() -> None:
    """No metric belongs to two quantities, so a change is reported once."""
    names = [metric.name for metric in EVERY]
    assert sorted(names) == sorted(set(names))


def test_a_level_rises_as_a_figure_gets_worse() -> None:
    """More time, less utilisation and more forced waits are worse."""
    good = make_measurement(train_s=0.033, sync_probe_fraction=0.0)
    bad = make_measurement(step_s=0.045, train_s=0.090, sync_probe_fraction=0.5)
    assert STEP.level(bad) - STEP.level(good) == pytest.approx(log(0.045 / 0.030))
    utilisation = UTILISATION.level(bad) - UTILISATION.level(good)
    assert utilisation == pytest.approx(log(0.030 / 0.033 / 0.5))
    assert SYNCS.level(bad) - SYNCS.level(good) == pytest.approx(0.5)


@by_name
def test_nothing_has_a_level_too(metric: Metric) -> None:
    """A value of 0, such as a step without time, is far from others but not an error."""
    nothing = Interval(0.0, 0.0, 0.0, 9)
    value = 0.0 if metric.is_share else nothing
    changed: dict[str, Any] = {metric.name: value}
    assert isfinite(metric.level(replace(make_measurement(), **changed)))


@by_name
def test_a_change_is_read_as_a_factor_or_a_difference(metric: Metric) -> None:
    """No change is a factor of 1, or a difference of 0 for a share; above that is worse."""
    assert metric.to_factor(0.0) == (0.0 if metric.is_share else 1.0)
    assert metric.to_factor(0.3) == (0.3 if metric.is_share else exp(0.3))


@pytest.mark.parametrize(("name", "alone", "shared", "elsewhere"), WORTH)
def test_what_a_change_must_be_worth(
    name: str, alone: float, shared: float, elsewhere: float
) -> None:
    """Bounds of wall times are wider on shared cores, and host metrics' on another machine.

    The widest of these counts.
    """
    (metric,) = (metric for metric in EVERY if metric.name == name)

    def bound(*, shared_cores: bool, same_machine: bool) -> float:
        return metric.to_factor(
            metric.bound_change(shared_cores=shared_cores, same_machine=same_machine)
        )

    assert bound(shared_cores=False, same_machine=True) == pytest.approx(alone)
    assert bound(shared_cores=True, same_machine=True) == pytest.approx(shared)
    assert bound(shared_cores=False, same_machine=False) == pytest.approx(elsewhere)
    assert bound(shared_cores=True, same_machine=False) == pytest.approx(max(shared, elsewhere))


def test_the_bounds_above_are_of_every_metric() -> None:
    """The table above has every gated metric."""
    assert [name for name, *_ in WORTH] == [metric.name for metric in EVERY]


def test_a_least_change_is_a_logarithm() -> None:
    """A bound is compared with differences of levels, so it is a logarithm too."""
    least = LOAD_CPU.bound_change(shared_cores=False, same_machine=True)
    assert least == pytest.approx(log1p(0.03))


def test_small_values_count_as_the_floor() -> None:
    """A start below a second and growth of a few bytes count as the floor."""
    assert START.to_level(0.001) == START.to_level(1.0) < START.to_level(1.1)
    assert GROWTH.to_level(-5e6) == GROWTH.to_level(0.0) == GROWTH.to_level(100e3)


@pytest.mark.parametrize(("low", "counted"), [(7.0, 7.0), (-7.0, 0.0)])
def test_only_sure_growth_counts(low: float, counted: float) -> None:
    """For growth, the low end of the interval counts, if it is above 0."""
    found = make_measurement(growth_bytes_per_batch=Interval(500.0, low, 900.0, 9))
    assert GROWTH.value(found) == counted


@pytest.mark.parametrize(
    ("metric", "found"),
    [
        (PEAK_MEMORY, None),
        (GROWTH, None),
        (GROWTH, Interval(0.0, -inf, inf, 4)),
    ],
)
def test_a_session_may_lack_a_metric(metric: Metric, found: Any) -> None:
    """Older sessions have no memory figures, and short ones no bounded growth."""
    lacking: dict[str, Any] = {metric.name: found}
    assert metric.is_in(make_measurement())
    assert not metric.is_in(make_measurement(**lacking))
    assert isfinite(metric.level(make_measurement(**lacking)))


def test_what_is_of_the_device_alone_travels() -> None:
    """Shares of the device's time are comparable between hosts; costs and times are not."""
    portable = {metric.name for metric in EVERY if not metric.depends_on_host}
    assert portable == {"accelerator_utilisation", "sync_probe_fraction"}


@pytest.mark.parametrize(
    ("name", "worse_ratio", "text"),
    [
        ("load_s_per_batch", 1.18, "1.18 x"),
        ("accelerator_utilisation", 1.18, "0.85 x"),  # it fell, which is worse
        ("sync_probe_fraction", 2.0, "+1.00"),  # a share rose from 0 to 1
        ("calls", 1.2, "1.20 x"),
        ("step_s", None, ""),
        ("step_s", 0.0, "0.00 x"),
        ("sync_probe_fraction", 0.0, "-1.00"),
    ],
)
def test_a_change_is_shown_in_the_direction_of_its_metric(
    name: str, worse_ratio: float | None, text: str
) -> None:
    """A table agrees with the reason: a factor of the metric, or a difference of a share."""
    assert format_worse_ratio(name, worse_ratio) == text
