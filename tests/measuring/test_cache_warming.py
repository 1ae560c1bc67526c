"""Loading that becomes faster within the rounds."""

import json
from itertools import chain, repeat
from pathlib import Path

import numpy as np
import pytest

from netpipe.measuring.cache_warming import find_warm_round
from netpipe.measuring.loader_puller import PulledBatches
from netpipe.measuring.round_log import LoadingBlocks
from netpipe.measuring.training.training_loop import TrainBlock
from netpipe.results.measurement import CACHE_WARMS_UP
from netpipe.verdict.decision import judge
from netpipe.verdict.kinds import VerdictKind
from tests.measuring.conftest import Rehearse

BASELINES = Path(__file__).parents[2] / "baselines"
_TRAIN = TrainBlock((1.0,), (0.0,), 1, 0, 2, 0, finite=True)


def loads_of(
    *load_s: float, drained: bool = True, busy: tuple[float, float] = (0.0, 0.0)
) -> list[LoadingBlocks]:
    """Make the loading blocks of rounds; `busy` is the host's in their first and second half."""
    half = len(load_s) // 2
    return [
        LoadingBlocks(
            drained, 0.0, PulledBatches((each_s,), 0.0, 1), _TRAIN, 0, busy[number >= half]
        )
        for number, each_s in enumerate(load_s)
    ]


@pytest.mark.parametrize(
    ("loads", "first"),
    [
        (loads_of(42, 45, 40, 0.4, 0.5, 0.4), 3),
        (loads_of(42, 45, 40, 42, 20, 0.4, 0.5, 0.4, 0.4), 5),  # a round in which it changed
        (loads_of(44, 42, 43, 15, 14, 14, 15, 14), 3),
        (loads_of(10, 10, 10, 10, 10, 10), None),
        (loads_of(12, 9, 12, 8, 11, 9, 10, 7), None),
        (loads_of(10, 11, 10, 7, 6.5, 7), None),  # a third faster
        (loads_of(0.4, 0.5, 0.4, 42, 45, 40), None),  # slower, not faster
        (loads_of(42, 45, 0.4, 0.4, 0.5, 0.4), None),  # two rounds are not a level
        (loads_of(42, 45, 40, 43, 0.4, 0.5), None),
        (loads_of(42, 45, 40, 0.4, 0.5, 40), None),  # it does not stay
        (loads_of(42, 5, 40, 4, 0.5, 0.4), None),
        (loads_of(42, 45, 40, 0.4), None),
        ([], None),
    ],
)
def test_loading_falls_to_a_level_and_stays(loads: list[LoadingBlocks], first: int | None) -> None:
    """Each level has at least three rounds, and the later one is at most half of the earlier."""
    assert find_warm_round(loads) == first


def test_buffers_are_not_a_cache() -> None:
    """Batches from buffers do not make a level."""
    assert find_warm_round(loads_of(42, 45, 40, 0.4, 0.5, 0.4, drained=False)) is None


@pytest.mark.parametrize(
    ("busy", "is_found"), [((0.0, 0.0), True), ((0.8, 0.8), True), ((0.8, 0.2), False)]
)
def test_an_idle_host_is_not_a_cache(busy: tuple[float, float], *, is_found: bool) -> None:
    """The end of programs that took 80% of the CPU explains loading four times as fast."""
    found = find_warm_round(loads_of(42, 45, 40, 13, 12, 12, busy=busy))
    assert (found is not None) is is_found


@pytest.mark.parametrize(("rounds", "sigma"), [(6, 0.2), (6, 2.0), (9, 0.5), (12, 1.0)])
def test_noise_is_not_a_cache(rounds: int, sigma: float) -> None:
    """Fewer than one in 200 series of independent log-normal times look like a cache."""
    generator = np.random.default_rng(0)
    trials = np.exp(sigma * generator.standard_normal((1000, rounds)))
    assert sum(find_warm_round(loads_of(*trial)) is not None for trial in trials) < 5


def test_recorded_sessions_show_no_cache() -> None:
    """No session of the stored baselines looks like a cache, in its order or in others."""
    generator, sessions = np.random.default_rng(0), 0
    for file in BASELINES.glob("cpu-*/*.json"):
        for session in json.loads(file.read_text(encoding="utf-8"))["netpipe"]["sessions"]:
            load_s = session["rounds"]["load_s_per_batch"]
            orders = [load_s, *(generator.permutation(load_s) for _ in range(20))]
            assert all(find_warm_round(loads_of(*order)) is None for order in orders)
            sessions += 1
    assert sessions >= 30


def test_the_later_level_is_judged(rehearse: Rehearse) -> None:
    """The verdict ignores the rounds before the cache was full."""
    found = rehearse(chain([0.050] * 100, repeat(0.0004)), budget_s=20.0)
    named = {finding.name: finding.message for finding in found.findings}
    assert "took 50 ms" in named[CACHE_WARMS_UP]
    assert "400 us" in named[CACHE_WARMS_UP]
    assert found.drained
    assert found.load_s_per_batch.high == pytest.approx(0.0004, rel=0.1)
    assert len({len(values) for values in vars(found.rounds).values() if values}) == 1
    verdict = judge(found)
    assert verdict.kind is VerdictKind.HEALTHY
    assert CACHE_WARMS_UP in verdict.message
