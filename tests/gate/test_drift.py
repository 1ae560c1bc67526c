"""Small slowdowns that add up over several baselines."""

from dataclasses import replace
from itertools import pairwise

import pytest

from netpipe.gate.comparison import BaselineSessions, compare
from netpipe.gate.outcomes import Outcome
from netpipe.results.measurement import Measurement
from tests.gate.sessions import FIRST, WHERE, session, stepping
from tests.measurements import CPU, HOST


def test_small_slowdowns_add_up() -> None:
    """Three slowdowns of 4%, each of which passes, fail together against the oldest baseline."""
    steps = [stepping(*[1.04**n] * 3) for n in range(4)]
    for before, after in pairwise(steps):
        assert compare("step_s", after, BaselineSessions(WHERE, before)).outcome is Outcome.PASS
    latest, oldest = BaselineSessions(WHERE, steps[2]), BaselineSessions(FIRST, steps[0])
    comparison = compare("step_s", steps[3], latest, [oldest])
    assert comparison.outcome is Outcome.REGRESSED
    for value in ("step_s", "1.12", FIRST, "1.10"):
        assert value in comparison.reason
    assert (comparison.baseline, comparison.then) == (FIRST, 0.030)


OTHER_DATA = stepping(*[1.0] * 3, fingerprint="data-1 config-0")
OTHER_HOST = stepping(*[1.0] * 3, host=replace(HOST, cores=64))


@pytest.mark.parametrize(
    ("earlier", "oldest"),
    [
        ((), ""),
        ([BaselineSessions(FIRST, ())], ""),
        ([BaselineSessions(FIRST, OTHER_DATA)], ""),
        ([BaselineSessions(FIRST, OTHER_HOST)], ""),
        ([BaselineSessions(FIRST, stepping(*[1.03] * 3))], FIRST),
    ],
)
def test_drift_needs_a_comparable_baseline_and_a_large_change(
    earlier: list[BaselineSessions], oldest: str
) -> None:
    """Other data, another host, or less than 10% in total do not count as drift."""
    comparison = compare(
        "step_s", stepping(*[1.12] * 3), BaselineSessions(WHERE, stepping(*[1.08] * 3)), earlier
    )
    assert (comparison.outcome, comparison.is_open) == (Outcome.PASS, False)
    assert [found.baseline for found in comparison.metrics] == [WHERE]
    assert comparison.oldest == oldest


@pytest.mark.parametrize("incomparable", [OTHER_DATA, OTHER_HOST, []])
def test_drift_is_judged_from_the_oldest_comparable_baseline(
    incomparable: list[Measurement],
) -> None:
    """If the first baseline is not comparable, the next comparable baseline is used."""
    second, third = (
        BaselineSessions(name, stepping(*[factor] * 3))
        for name, factor in (("second", 1.0), ("third", 1.2))
    )
    latest = BaselineSessions(WHERE, stepping(*[1.08] * 3))
    earlier = [BaselineSessions(FIRST, incomparable), second, third]
    comparison = compare("step_s", stepping(*[1.12] * 3), latest, earlier)
    assert (comparison.outcome, comparison.oldest) == (Outcome.REGRESSED, "second")
    for value in ("step_s", "1.12", "second", "1.10"):
        assert value in comparison.reason


def test_drift_takes_more_than_one_session_too() -> None:
    """One session beyond the drift bound only leads to a second one."""
    latest, oldest = (BaselineSessions(WHERE, stepping(*[factor] * 3)) for factor in (1.08, 1.0))
    comparison = compare("step_s", stepping(1.12), latest, [oldest])
    assert (comparison.outcome, comparison.is_open) == (Outcome.INCONCLUSIVE, True)


def test_drift_is_allowed_up_to_the_bound_of_one_change() -> None:
    """If a single change may exceed 10%, as for loading on a CPU device, so may the sum."""

    def loading(factor: float) -> list[Measurement]:
        return [session({"load_s_per_batch": 0.010 * factor}, device=CPU)] * 3

    latest, oldest = (BaselineSessions(WHERE, loading(factor)) for factor in (1.1, 1.0))
    for factor, outcome in ((1.25, Outcome.PASS), (1.35, Outcome.REGRESSED)):
        found = compare("load_s_per_batch", loading(factor), latest, [oldest])
        assert found.outcome is outcome
