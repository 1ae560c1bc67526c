"""The fewest workers that load as fast as any."""

import pytest

from netpipe.throughput.worker_choice import (
    Candidate,
    WorkerChoice,
    choose,
    drop_hopeless,
    drop_slower,
    is_decided,
    worker_counts,
)
from tests.throughput.tallies import make_tally

MB = 10**6


def _candidate(workers: int, *tokens_per_s: float, megabytes: int = 0) -> Candidate:
    """A candidate whose trials gave so many million tokens a second, 100 MB and 100 a worker."""
    pss_bytes = (megabytes or 100 + 100 * workers) * MB
    runs = tuple(
        make_tally(wall_s=1.0, tokens=round(speed * 1e6), peak_pss_bytes=pss_bytes)
        for speed in tokens_per_s
    )
    return Candidate(workers, MB, runs)


def _choose(*candidates: Candidate) -> WorkerChoice:
    return choose(candidates, 4000 * MB, 1.0)


def _statuses(choice: WorkerChoice) -> dict[int, str]:
    return {one.workers: one.status for one in choice.candidates}


NONE, ONE = _candidate(0, 5.0, 5.1, 5.0), _candidate(1, 11.2, 11.1, 11.3)
TWO, FOUR = _candidate(2, 13.9, 13.8, 14.0), _candidate(4, 14.1, 14.2, 14.0, megabytes=510)


@pytest.mark.parametrize(
    ("cores", "counts"),
    [(1, [1]), (2, [1, 2]), (6, [1, 2, 4, 6]), (8, [1, 2, 4, 8])],
)
def test_the_candidates_end_at_the_cores(cores: int, counts: list[int]) -> None:
    """The powers of two up to the cores, and the cores."""
    assert worker_counts(cores) == counts


def test_what_more_workers_do_not_gain_is_not_taken() -> None:
    """From 2 on it is saturated: 4 are not needed, 0 and 1 clearly slower; the sentence says so."""
    choice = _choose(NONE, ONE, TWO, FOUR)
    assert choice.workers == 2
    assert _statuses(choice) == {0: "slower", 1: "slower", 2: "chosen", 4: "not needed"}
    assert choice.reason == (
        "2 workers: 13.9 M tokens/s; 4 give 14.1 M (1% more) for 210 MB more; "
        "1 gives 11.2 M (19% less)."
    )
    assert (choice.memory_budget_bytes, choice.seconds) == (4000 * MB, 1.0)
    assert all(one.reason for one in choice.candidates)


def test_workers_that_slow_it_down_are_not_taken() -> None:
    """Nothing is faster than no workers at all."""
    choice = _choose(_candidate(0, 12.0, 12.0, 12.0), ONE, _candidate(2, 9.0, 9.1, 9.0))
    assert choice.workers == 0
    assert _statuses(choice) == {0: "chosen", 1: "slower", 2: "slower"}
    assert choice.reason == "0 workers: 12 M tokens/s; 1 gives 11.2 M (7% less) for 100 MB more."


def test_as_many_as_there_are_can_be_needed() -> None:
    """Where every worker helps the most are taken."""
    choice = _choose(NONE, ONE, _candidate(2, 20.0, 20.1, 20.0))
    assert choice.workers == 2
    assert choice.reason == "2 workers: 20 M tokens/s; 1 gives 11.2 M (44% less)."


def test_noise_takes_no_more_workers() -> None:
    """4 have the higher median, but 2 were faster in a round: 2 are chosen, with a remark."""
    choice = _choose(ONE, _candidate(2, 13.0, 16.0, 12.5), _candidate(4, 14.5, 14.0, 15.0))
    assert choice.workers == 2
    assert _statuses(choice) == {1: "slower", 2: "chosen", 4: "not needed"}
    assert "4 give 14.5 M (12% more, but not in every round) for 200 MB more" in choice.reason


def test_rounds_are_compared_with_their_own() -> None:
    """A machine that slows down for all of them in one round hides no difference."""
    slow, fast = _candidate(1, 10.0, 5.0, 9.0), _candidate(2, 20.0, 10.0, 18.0)
    assert _choose(slow, fast).workers == 2
    assert _choose(slow, _candidate(2, 9.0, 10.0, 9.0)).workers == 1


def test_clearly_slower_by_less_than_a_twentieth_is_as_fast() -> None:
    """Four percent are not worth a process."""
    less, more = _candidate(1, 9.6, 9.6, 9.6), _candidate(2, 10.0, 10.0, 10.0)
    assert _choose(less, more).workers == 1
    assert _choose(_candidate(1, 9.4, 9.4, 9.4), more).workers == 2


@pytest.mark.parametrize(
    ("status", "reason", "shown"),
    [
        ("over budget", "took 510 MB, above the budget of 400 MB", "took 510 MB, above the budget"),
        ("failed", "the session ended:\nKilled", "the session ended"),
    ],
)
def test_what_was_left_out_is_not_chosen(status: str, reason: str, shown: str) -> None:
    """Fast as it may be; the sentence says why it was not, in one line."""
    best = Candidate(4, MB, _candidate(4, 30.0).runs, status=status, reason=reason)  # type: ignore[arg-type]
    choice = _choose(ONE, TWO, best)
    assert choice.workers == 2
    assert choice.candidates[-1] == best
    assert f"tokens/s; 4 left out: {shown}" in choice.reason
    assert "\n" not in choice.reason
    assert "1 gives 11.2 M" in choice.reason


def test_the_fastest_of_many_is_compared() -> None:
    """Beside the next candidate, that which has the most tokens per second."""
    choice = _choose(TWO, FOUR, _candidate(8, 14.3, 14.3, 14.3), _candidate(16, 14.2, 14.2, 14.2))
    assert choice.workers == 2
    assert "; 4 give 14.1 M (1% more) for 210 MB more; 8 give 14.3 M (3% more)" in choice.reason
    assert "16" not in choice.reason


def test_one_core_is_a_choice_too() -> None:
    """Between no worker and one."""
    alone = _candidate(0, 5.0, 5.0, 5.0)
    assert _choose(alone, _candidate(1, 5.1, 5.1, 5.1)).workers == 0
    assert _choose(alone).reason == "0 workers: 5 M tokens/s."


def test_it_is_undecided_where_the_rounds_differ() -> None:
    """The fewest that may be as fast are slower in the median; further rounds could tell."""
    noisy = _candidate(2, 13.0, 16.0, 12.5)
    assert not is_decided([noisy, _candidate(4, 14.5, 14.0, 15.0)])
    assert is_decided([noisy, _candidate(4, 13.1, 13.1, 13.1)])
    assert is_decided([ONE, TWO, FOUR])


def test_only_open_ones_are_judged() -> None:
    """What was left out neither outruns the others nor is judged again."""
    out = Candidate(8, MB, _candidate(8, 99.0).runs, status="failed", reason="gone")
    assert drop_slower([ONE, TWO, out])[1:] == [TWO, out]
    assert drop_hopeless([TWO, FOUR, out]) == [TWO, FOUR, out]


def test_less_than_a_third_in_every_round_is_hopeless() -> None:
    """One round in which it had more keeps it; both speeds are in the reason."""
    fast = _candidate(4, 12.0, 12.5)
    slow = _candidate(0, 3.9, 4.0)
    left, kept = drop_hopeless([slow, fast])
    assert kept == fast
    assert (left.status, left.reason) == (
        "slower", "4 M tokens/s, less than a third of 12.5 M in round 2",
    )  # fmt: skip
    once = _candidate(0, 4.1, 3.0)
    assert drop_hopeless([once, fast]) == [once, fast]
