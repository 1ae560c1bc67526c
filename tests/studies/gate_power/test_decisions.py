"""Decisions replayed from recorded sessions."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import cycle, islice

import pytest

from netpipe.gate.comparison import MAX_SESSIONS
from netpipe.gate.outcomes import Outcome
from netpipe.results.measurement import Interval, Measurement
from perf_tests.studies.gate_power.decisions import decide_in_order, decide_run, replay_decisions
from tests.measurements import HOST, make_measurement

SPREAD = (0.99, 1.0, 1.01, 1.0, 0.995, 1.005)


def session(cpu_ratio: float) -> Measurement:
    """Make a session with a CPU ratio, on one machine."""
    host = replace(HOST, machine="one")
    return make_measurement(load_cpu_ratio=Interval(cpu_ratio, cpu_ratio, cpu_ratio, 8), host=host)


def sessions(middle: float, count: int) -> list[Measurement]:
    """Make sessions that spread around a CPU ratio."""
    return [session(middle * factor) for factor in islice(cycle(SPREAD), count)]


def test_identical_code_passes_at_once() -> None:
    """One session that is like the baseline's decides the whole run."""
    decision = decide_run(sessions(2.0, 10), iter([session(2.0)]))
    assert (decision.outcome, decision.sessions) == (Outcome.PASS, 1)


def test_a_slowdown_takes_sessions_until_it_is_proven() -> None:
    """More sessions are drawn from the supply, up to the number that a run measures."""
    supply = iter(sessions(2.4, 20))
    decision = decide_run(sessions(2.0, 10), supply)
    assert (decision.outcome, decision.metric) == (Outcome.REGRESSED, "load_cpu_ratio")
    assert 2 <= decision.sessions <= MAX_SESSIONS
    assert len(list(supply)) == 20 - decision.sessions


def test_no_session_is_in_its_own_baseline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replays of identical code compare other sessions with ten in a row."""
    kept = [session(2.0 + number / 1000) for number in range(25)]
    seen: list[tuple[list[Measurement], Measurement]] = []

    def noted(baseline: list[Measurement], supply: Iterator[Measurement]) -> None:
        seen.append((baseline, next(supply)))

    monkeypatch.setattr("perf_tests.studies.gate_power.decisions.decide_run", noted)
    list(replay_decisions(kept, kept, 200, seed=1))
    assert len(seen) == 200
    assert all(len(baseline) == 10 and now not in baseline for baseline, now in seen)
    assert len({now.load_cpu_ratio.median for _, now in seen}) > 20


def test_replays_find_what_is_slower_and_nothing_else() -> None:
    """A loader that costs a fifth more is always found, an unchanged one never."""
    kept, slower = sessions(2.0, 30), sessions(2.4, 12)
    assert {decision.outcome for decision in replay_decisions(kept, kept, 50, seed=1)} == {
        Outcome.PASS
    }
    assert {decision.outcome for decision in replay_decisions(kept, slower, 50, seed=1)} == {
        Outcome.REGRESSED
    }


def test_in_order_every_session_after_the_baseline_is_used_once() -> None:
    """Ten sessions are recorded, the others are runs; a run that is still open takes the next."""
    assert [decision.sessions for decision in decide_in_order(sessions(2.0, 16))] == [1] * 6
    slower_at_the_end = sessions(2.0, 10) + sessions(2.4, 4)
    found = list(decide_in_order(slower_at_the_end))
    assert sum(decision.sessions for decision in found) >= 4
    assert found[0].outcome is Outcome.REGRESSED
