"""What pairs of sessions decide: in each direction, at each number of pairs."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from netpipe.gate.outcomes import Comparison, Outcome
from netpipe.gate.pairs import MAX_PAIRS, MIN_PAIRS, Pair, decide
from netpipe.results.measurement import Interval, Measurement
from tests.gate.sessions import worse_of
from tests.suite.recorded import H200, recorded


def decided(*ratios: float, quantity: str = "step_s") -> Comparison:
    """Decide on pairs in which this version takes so many times as long."""
    pairs = [
        Pair(recorded(), recorded(step_s=0.030 * factor, train_s=0.030 * factor))
        for factor in ratios
    ]
    return decide(quantity, pairs)


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
        ((1.04, 1.041, 1.039), (Outcome.PASS, False)),
        ((0.96, 0.961, 0.959), (Outcome.PASS, False)),
        ((1.06, 1.061, 1.059), (Outcome.REGRESSED, False)),
    ],
    ids=["equal", "slower", "faster", "hardly slower", "hardly faster", "just slower"],
)
def test_three_pairs_that_agree_decide(
    ratios: tuple[float, ...], expected: tuple[Outcome, bool]
) -> None:
    """A time counts as slower from 5% on, and as faster likewise."""
    assert outcome(*ratios) == expected


def test_fewer_pairs_never_decide() -> None:
    """Two pairs leave any answer open."""
    assert decided(*[1.5] * (MIN_PAIRS - 1)).is_open


def test_a_suspicion_is_followed_up() -> None:
    """A median above the bound that is not proven stays open, and in the end inconclusive."""
    spread = [1.20, 0.95, 1.10, 1.15, 0.90, 1.08, 1.12]
    for count in range(MIN_PAIRS, MAX_PAIRS):
        assert outcome(*spread[:count]) == (Outcome.INCONCLUSIVE, True)
    assert outcome(*spread) == (Outcome.INCONCLUSIVE, False)


def test_an_interval_that_reaches_far_is_followed_up() -> None:
    """Pairs about 1 that do not exclude 10% stay open, and in the end pass."""
    spread = [1.00, 1.08, 0.92, 1.01, 0.99, 1.09, 0.97]
    assert outcome(*spread[:3]) == (Outcome.PASS, True)
    assert outcome(*spread) == (Outcome.PASS, False)


def test_the_reason_has_the_ratio_and_its_interval() -> None:
    """The metric, by what factor it is worse, the interval, the number of pairs and the bound."""
    comparison = decided(1.11, 1.12, 1.13)
    for value in ("step_s", "1.12 x", "1.06 to 1.18", "3 pairs", "1.05"):
        assert value in comparison.reason
    assert comparison.worse_ratio == pytest.approx(1.12)
    assert comparison.then == pytest.approx(0.030)
    assert comparison.now == pytest.approx(0.030 * 1.12)


def test_versions_that_describe_their_host_differently_are_compared() -> None:
    """Both sides of a pair run on one host, also where an older version knew less about it."""
    new = recorded(load_cpu_ratio=2.0)
    old = replace(new, host=replace(new.host, cpu_model="family 6, model 167, stepping 1"))
    slower = recorded(load_cpu_ratio=4.0)
    for now, expected in ((new, Outcome.PASS), (slower, Outcome.REGRESSED)):
        decision = decide("load_s_per_batch", [Pair(old, now)] * MIN_PAIRS)
        assert decision.outcome is expected


def test_cpu_time_counts_from_three_percent_on() -> None:
    """What the machine's load hardly moves is held more tightly than a time."""
    pairs = [
        Pair(recorded(), recorded(load_cpu_ratio=2.0 * factor)) for factor in (1.04, 1.041, 1.039)
    ]
    comparison = decide("load_s_per_batch", pairs)
    assert (comparison.outcome, comparison.metric) == (Outcome.REGRESSED, "load_cpu_ratio")


def test_waiting_counts_beside_cpu_time() -> None:
    """A loader that waits longer and computes as much is slower."""
    pairs = [Pair(recorded(), recorded(load_s=0.010 * factor)) for factor in (1.10, 1.11, 1.12)]
    comparison = decide("load_s_per_batch", pairs)
    assert (comparison.outcome, comparison.metric) == (Outcome.REGRESSED, "load_s_per_batch")


def test_less_utilisation_is_worse() -> None:
    """A figure of which more is better regresses when it falls, and improves when it grows."""
    waiting = [recorded(train_s=0.030 * factor, device=H200) for factor in (1.2, 1.21, 1.19)]
    fine = recorded(device=H200)
    worse = decide("train_s_per_step", [Pair(fine, session) for session in waiting])
    better = decide("train_s_per_step", [Pair(session, fine) for session in waiting])
    assert (worse.outcome, worse.metric) == (Outcome.REGRESSED, "accelerator_utilisation")
    assert (better.outcome, better.metric) == (Outcome.IMPROVED, "accelerator_utilisation")


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        (replace(recorded(), fingerprint="other data"), "other data or another configuration"),
        (recorded(device=H200), "measured on h200-x1"),
    ],
)
def test_only_like_is_compared(other: Measurement, reason: str) -> None:
    """Other data, and another device, are no base; no further pair is measured for it."""
    decision = decide("step_s", [Pair(other, recorded())])
    assert decision.outcome is Outcome.NOT_COMPARED
    assert reason in decision.reason
    assert (decision.is_open, decision.worse_ratio) == (False, None)


def test_costs_by_two_references_are_not_compared() -> None:
    """A version with other workers is calibrated by another loader: only its wall time counts."""
    other = replace(recorded(), calibration="reference-loader/1, 2 workers")
    comparison = decide("load_s_per_batch", [Pair(other, recorded())] * MIN_PAIRS)
    outcomes = {metric.metric: metric.outcome for metric in comparison.metrics}
    assert outcomes == {
        "load_cpu_ratio": Outcome.NOT_COMPARED,
        "load_s_per_batch": Outcome.PASS,
    }


def test_a_pair_shows_what_is_reported_only() -> None:
    """On a device that shares its cores, utilisation is listed and not judged."""
    comparison = decide("train_s_per_step", [Pair(recorded(), recorded())] * MIN_PAIRS)
    (utilisation, *_) = comparison.metrics
    assert utilisation.is_reported_only
    assert comparison.outcome is Outcome.PASS


def test_nothing_is_divided_by_zero() -> None:
    """From a figure of 0 to any other is a change without end, in its direction."""
    idle = replace(recorded(), load_cpu_ratio=Interval(0.0, 0.0, 0.0, 10))
    pairs = [Pair(idle, recorded()), Pair(recorded(), idle)]
    for pair, outcome in zip(pairs, (Outcome.REGRESSED, Outcome.IMPROVED), strict=True):
        comparison = decide("load_s_per_batch", [pair] * MIN_PAIRS)
        assert (comparison.outcome, comparison.metric) == (outcome, "load_cpu_ratio")


def test_what_a_busier_machine_explains_is_no_slowdown() -> None:
    """Where other programs took half of the machine from one side, its wall times say less."""
    busy = replace(recorded(load_s=0.018), busy_elsewhere_fraction=0.5)
    pairs = [Pair(recorded(), busy)] * 3
    comparison = decide("load_s_per_batch", pairs)
    assert comparison.outcome is Outcome.PASS
    (wall,) = (metric for metric in comparison.metrics if metric.metric == "load_s_per_batch")
    assert wall.bound == pytest.approx(2 * 1.10)
    calm = [Pair(recorded(), recorded(load_s=0.018))] * 3
    assert decide("load_s_per_batch", calm).outcome is Outcome.REGRESSED


# ---- How often it is wrong: all is drawn


def costing(cost: float) -> Measurement:
    """Make a session whose loader costs so many times the reference."""
    return replace(USUAL, load_cpu_ratio=Interval(cost, cost, cost, 9))


def chances(slowdown: float, spread: float, decisions: int = 600) -> Counter[Outcome]:
    """Decide on pairs whose ratios spread normally, as many as it takes."""
    rng = np.random.default_rng([round(1000 * slowdown), round(1000 * spread)])
    found: Counter[Outcome] = Counter()
    for _ in range(decisions):
        factors = np.exp(rng.normal(np.log(slowdown), spread, MAX_PAIRS)).tolist()
        pairs = [Pair(USUAL, recorded(load_cpu_ratio=2.0 * factor)) for factor in factors]
        taken = MIN_PAIRS
        while (decision := decide("load_s_per_batch", pairs[:taken])).is_open:
            taken += 1
        found[decision.outcome] += 1
    return found


USUAL = recorded()


LEVEL = 0.005
DRAWS = 4_000


@pytest.mark.parametrize("count", range(MIN_PAIRS, MAX_PAIRS + 1))
def test_intervals_keep_their_level_at_every_number_of_pairs(count: int) -> None:
    """Pairs of identical code that spread by 1.5 to 10% seldom exclude a change of zero."""
    rng = np.random.default_rng(20_260 + count)
    alarms = 0
    for _ in range(DRAWS):
        factors = np.exp(rng.normal(0.0, rng.uniform(0.015, 0.10), count))
        pairs = [Pair(USUAL, costing(2.0 * factor)) for factor in factors]
        worse = worse_of(decide("load_s_per_batch", pairs).metrics[0])
        alarms += worse.low > 1
        assert worse.median**2 == pytest.approx(worse.low * worse.high)
    assert alarms <= DRAWS * LEVEL + 3 * (DRAWS * LEVEL) ** 0.5


@pytest.mark.parametrize("spread", [0.01, 0.03, 0.1])
def test_identical_code_seldom_regresses(spread: float) -> None:
    """However far pairs spread, at most 2% of the decisions on identical code are alarms."""
    assert chances(1.0, spread)[Outcome.REGRESSED] <= 0.02 * 600


@pytest.mark.parametrize(
    ("slowdown", "spread", "least"), [(1.05, 0.02, 0.8), (1.10, 0.03, 0.95), (1.10, 0.05, 0.7)]
)
def test_slowdowns_are_found(slowdown: float, spread: float, least: float) -> None:
    """Of CPU time, 5% where pairs spread by 2%, and 10% where they spread by 3%."""
    assert chances(slowdown, spread)[Outcome.REGRESSED] >= least * 600
