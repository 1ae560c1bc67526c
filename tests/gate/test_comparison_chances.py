"""How often the gate is wrong, from randomly drawn sessions; nothing is timed."""

from collections import Counter
from collections.abc import Callable, Sequence
from copy import copy
from functools import cache
from statistics import median

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netpipe.gate.comparison import MAX_SESSIONS, BaselineSessions, compare, compare_until_decided
from netpipe.gate.metrics import GATED, LOAD_CPU
from netpipe.gate.outcomes import Comparison, Outcome
from netpipe.results.measurement import Interval, Measurement
from tests.gate.sessions import worse_of
from tests.measurements import make_measurement

USUAL = make_measurement()
BEST_FIRST = [Outcome.IMPROVED, Outcome.PASS, Outcome.INCONCLUSIVE, Outcome.REGRESSED]

costs = st.floats(0.5, 8.0)
several = st.lists(costs, min_size=1, max_size=MAX_SESSIONS)
recorded = st.lists(costs, min_size=1, max_size=12)


def costing(cost: float) -> Measurement:
    """Make a session whose loader costs `cost` times the reference."""
    session = copy(USUAL)  # `replace` takes ten times as long
    vars(session)["load_cpu_ratio"] = Interval(cost, cost, cost, 9)
    return session


def held(now: Sequence[float], then: Sequence[float]) -> Outcome:
    """Compare sessions with these costs."""
    baseline = BaselineSessions("a", [costing(cost) for cost in then])
    return compare("load_s_per_batch", [costing(cost) for cost in now], baseline).outcome


@given(recorded, st.data())
@settings(deadline=None)
def test_what_is_as_good_as_the_baseline_never_regresses(
    then: list[float], data: st.DataObject
) -> None:
    """Sessions of the baseline that are not worse than its median raise no alarm."""
    good = [cost for cost in then if cost <= median(then)]
    now = data.draw(st.lists(st.sampled_from(good), min_size=1, max_size=MAX_SESSIONS))
    assert held(now, then) in {Outcome.PASS, Outcome.IMPROVED}


@given(st.lists(costs, min_size=1, max_size=MAX_SESSIONS))
@settings(deadline=None)
def test_the_baselines_own_sessions_pass(then: list[float]) -> None:
    """The recorded sessions themselves are neither better nor worse."""
    assert held(then, then) is Outcome.PASS


@given(several, recorded, st.floats(1.0, 3.0))
@settings(deadline=None)
def test_worse_never_counts_as_better(now: list[float], then: list[float], factor: float) -> None:
    """If every session costs more by one factor, the outcome is never better."""
    before, after = held(now, then), held([cost * factor for cost in now], then)
    assert BEST_FIRST.index(after) >= BEST_FIRST.index(before)


@given(several, recorded, st.permutations(range(MAX_SESSIONS)))
@settings(deadline=None)
def test_the_order_of_sessions_is_nothing(
    now: list[float], then: list[float], order: list[int]
) -> None:
    """The outcome does not depend on the order of the sessions."""
    shuffled = [now[place] for place in order if place < len(now)]
    assert held(shuffled, then) is held(now, then)


@pytest.fixture
def cost_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compare nothing but the drawn cost: the other metrics of all these sessions are equal."""
    monkeypatch.setitem(GATED, "load_s_per_batch", (LOAD_CPU,))


LEVEL = 0.005
"""One-sided, of an interval, as docs/gate.md states it."""
DRAWS = 6_000
MOST_ALARMS = DRAWS * LEVEL + 3 * (DRAWS * LEVEL) ** 0.5  # three standard deviations of a count


@pytest.mark.usefixtures("cost_alone")
@pytest.mark.parametrize("sessions", range(2, MAX_SESSIONS + 1))
def test_intervals_keep_their_level_at_every_number_of_sessions(sessions: int) -> None:
    """Sessions of identical code that spread by 1.5 to 10% seldom exclude a change of zero."""
    draw = np.random.default_rng(20_260 + sessions)
    alarms = 0
    for _ in range(DRAWS):
        spread = draw.uniform(0.015, 0.10)
        costs = 2.0 * np.exp(draw.normal(0.0, spread, 10 + sessions))
        baseline, *now = (
            BaselineSessions("a", list(map(costing, costs[:10]))),
            *map(costing, costs[10:]),
        )
        every = compare("load_s_per_batch", now, baseline).metrics
        alarms += worse_of(every[0]).low > 1
    assert alarms <= MOST_ALARMS


def decide(baseline: list[Measurement], draw_session: Callable[[], Measurement]) -> Comparison:
    """Decide a run in which sessions are drawn until it is decided."""
    now, then = [draw_session()], BaselineSessions("a", baseline)
    return compare_until_decided(
        lambda: compare("load_s_per_batch", now, then), lambda _: now.append(draw_session())
    )


@pytest.mark.usefixtures("cost_alone")
def test_a_whole_run_keeps_the_level() -> None:
    """Looking after each session raises no more false alarms than a single look."""
    draw = np.random.default_rng(20_260)
    alarms = 0
    for _ in range(DRAWS):
        spread = draw.uniform(0.015, 0.10)

        def drawn(spread: float = spread) -> Measurement:
            return costing(float(2.0 * np.exp(draw.normal(0.0, spread))))

        found = decide([drawn() for _ in range(10)], drawn)
        alarms += found.outcome is Outcome.REGRESSED
    assert alarms <= MOST_ALARMS


DECISIONS = 2_000


@cache
def outcomes(slowdown: float) -> Counter[Outcome]:
    """Draw baselines of ten sessions and runs that go on until decided; count the outcomes.

    Sessions spread by 1.5%; the runs' sessions cost more by a factor.
    """
    draw = np.random.default_rng(20_260)

    def drawn(factor: float) -> Measurement:
        return costing(float(2.0 * factor * np.exp(draw.normal(0.0, 0.015))))

    found: Counter[Outcome] = Counter()
    for _ in range(DECISIONS):
        comparison = decide([drawn(1.0) for _ in range(10)], lambda: drawn(slowdown))
        found[comparison.outcome] += 1
    return found


@pytest.mark.usefixtures("cost_alone")
def test_false_alarms_are_rare() -> None:
    """At most 1% of unchanged runs are REGRESSED, and few stay open."""
    found = outcomes(1.0)
    assert found[Outcome.REGRESSED] <= 0.01 * DECISIONS
    assert found[Outcome.INCONCLUSIVE] <= 0.02 * DECISIONS


@pytest.mark.usefixtures("cost_alone")
@pytest.mark.parametrize(("slowdown", "share"), [(1.05, 0.80), (1.10, 0.95), (1.20, 0.99)])
def test_slowdowns_are_found(slowdown: float, share: float) -> None:
    """A 10% higher cost is found in nearly all runs, a 5% higher one in most."""
    assert outcomes(slowdown)[Outcome.REGRESSED] >= share * DECISIONS
