"""The fewest workers that load as fast as any."""

import re
from collections.abc import Iterable
from dataclasses import replace
from itertools import cycle

import pytest

from netpipe.errors import InputError, SessionError
from netpipe.measuring.training.token_counts import BY_ELEMENTS
from netpipe.throughput.figures import Tally
from netpipe.throughput.worker_choice import (
    Candidate,
    WorkerChoice,
    choose,
    drop_slower,
    foresee_excess,
    parse_budget,
    try_candidates,
    worker_counts,
)
from tests.throughput.tallies import make_tally

MB = 10**6


def _candidate(workers: int, *tokens_per_s: float, megabytes: int = 0) -> Candidate:
    """Return a candidate with these millions of tokens a second, and 100 MB for each process."""
    pss_bytes = (megabytes or 100 + 100 * workers) * MB
    runs = tuple(
        make_tally(wall_s=1.0, tokens=round(speed * 1e6), peak_pss_bytes=pss_bytes)
        for speed in tokens_per_s
    )
    return Candidate(workers, runs)


def _choose(*candidates: Candidate) -> WorkerChoice:
    return choose(candidates, 4000 * MB, 1.0)


def _statuses(candidates: Iterable[Candidate]) -> dict[int, str]:
    return {candidate.workers: candidate.status for candidate in candidates}


NONE, ONE = _candidate(0, 5.0, 5.1, 5.0), _candidate(1, 11.2, 11.1, 11.3)
TWO, FOUR = _candidate(2, 13.9, 13.8, 14.0), _candidate(4, 14.1, 14.2, 14.0, megabytes=510)


def test_one_slow_round_of_the_fastest_does_not_choose_too_few() -> None:
    """One worker is clearly slower than two, even if not than four."""
    four = _candidate(4, 17.0, 9.5, 17.0, 17.0, 17.0, 17.0)
    choice = _choose(_candidate(1, *[10.0] * 6), _candidate(2, *[15.0] * 6), four)
    assert choice.workers == 2
    assert _statuses(choice.candidates)[1] == "slower"


@pytest.mark.parametrize(
    ("cores", "counts"),
    [(1, [1]), (2, [1, 2]), (6, [1, 2, 4, 6]), (8, [1, 2, 4, 8])],
)
def test_the_candidates_end_at_the_cores(cores: int, counts: list[int]) -> None:
    """The candidates are the powers of two up to the cores, and the cores."""
    assert worker_counts(cores) == counts


def test_batches_without_tokens_are_counted_in_examples() -> None:
    """Without tokens, the reason counts examples."""
    runs = tuple(replace(run, examples=50, counted_by=BY_ELEMENTS) for run in TWO.runs)
    assert _choose(replace(TWO, runs=runs)).reason.startswith("2 workers: 50 examples/s.")


@pytest.mark.parametrize(
    ("behind", "batch_megabytes", "buffer"),
    [([1.0] * 3, 1, 1), ([2.0, 2.1, 9.0], 1, 2), ([20.0] * 3, 1, 10), ([20.0] * 3, 1000, 2)],
    ids=["even", "median-of-trials", "long-pauses", "within-the-budget"],
)
def test_buffers_hide_pauses_within_the_budget(
    behind: list[float], batch_megabytes: int, buffer: int
) -> None:
    """Two workers share what a buffer must hold; of 4 GB, 3.7 are left for batches of 1 GB."""
    runs = tuple(
        replace(run, behind_batches=batches, batch_bytes=batch_megabytes * MB)
        for run, batches in zip(TWO.runs, behind, strict=True)
    )
    choice = _choose(ONE, replace(TWO, runs=runs))
    assert choice.buffer == buffer
    assert ("the memory budget allows 2" in choice.reason) is (batch_megabytes == 1000)


def test_workers_without_gain_are_not_chosen() -> None:
    """2 workers saturate: 4 are not needed, 0 and 1 are clearly slower, and the reason says so."""
    choice = _choose(NONE, ONE, TWO, FOUR)
    assert choice.workers == 2
    assert _statuses(choice.candidates) == {0: "slower", 1: "slower", 2: "chosen", 4: "not needed"}
    assert choice.reason == (
        "2 workers: 13.9 M tokens/s; 4 give 14.1 M (1% more) for 210 MB more; "
        "1 gives 11.2 M (19% less). "
        "It falls up to 1.0 batches behind its mean pace; buffers of 1 in each worker hide that."
    )
    assert (choice.memory_budget_bytes, choice.seconds) == (4000 * MB, 1.0)
    assert all(candidate.reason for candidate in choice.candidates)


def test_noise_chooses_no_more_workers() -> None:
    """4 have the higher median, but 2 were faster in a round: 2 are chosen, with a remark."""
    choice = _choose(ONE, _candidate(2, 13.0, 16.0, 12.5), _candidate(4, 14.5, 14.0, 15.0))
    assert choice.workers == 2
    assert _statuses(choice.candidates) == {1: "slower", 2: "chosen", 4: "not needed"}
    assert "12% more, but not" in choice.reason


def test_runs_are_compared_within_a_round() -> None:
    """A round in which the machine is slow hides no difference."""
    slow, fast = _candidate(1, 10.0, 5.0, 9.0), _candidate(2, 20.0, 10.0, 18.0)
    assert _choose(slow, fast).workers == 2
    assert _choose(slow, _candidate(2, 9.0, 10.0, 9.0)).workers == 1


def test_four_percent_are_as_fast() -> None:
    """A candidate that is 4% slower is chosen, one that is 6% slower is not."""
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
def test_excluded_candidates_are_not_chosen(status: str, reason: str, shown: str) -> None:
    """An excluded candidate is not chosen, and the reason says in one line why."""
    best = Candidate(4, _candidate(4, 30.0).runs, status=status, reason=reason)  # type: ignore[arg-type]
    choice = _choose(ONE, TWO, best)
    assert choice.workers == 2
    assert choice.candidates[-1] == best
    assert f"tokens/s; 4 left out: {shown}" in choice.reason
    assert "\n" not in choice.reason
    assert "1 gives 11.2 M" in choice.reason


def test_the_fastest_of_many_is_compared() -> None:
    """The reason compares the next candidate, and then the fastest of the others."""
    choice = _choose(TWO, FOUR, _candidate(8, 14.3, 14.3, 14.3), _candidate(16, 14.2, 14.2, 14.2))
    assert choice.workers == 2
    assert choice.reason.index("4 give 14.1 M") < choice.reason.index("8 give 14.3 M")
    assert "16" not in choice.reason


def test_only_open_candidates_are_judged() -> None:
    """An excluded candidate is not judged again, and no other is compared with it."""
    out = Candidate(8, _candidate(8, 99.0).runs, status="failed", reason="gone")
    assert drop_slower([ONE, TWO, out])[1:] == [TWO, out]


class Machine:
    """Gives tallies instead of running loaders, and notes the trials and the reports."""

    def __init__(self, **speeds: list[float]) -> None:
        self._speeds = {int(name[1:]): cycle(of_rounds) for name, of_rounds in speeds.items()}
        self.untried = [Candidate(workers) for workers in self._speeds]
        self.asked: list[int] = []
        self.reported: list[tuple[int, int, str]] = []
        self.failing: dict[int, Exception] = {}
        self.growing_megabytes = dict.fromkeys(self._speeds, 0)

    def measure(self, workers: int) -> Tally:
        """Return a run in which each worker takes 100 MB, and so does the process above them."""
        self.asked.append(workers)
        if workers in self.failing:
            raise self.failing[workers]
        grown_megabytes = self.growing_megabytes[workers] * (self.asked.count(workers) - 1)
        pss_bytes = (100 + 100 * workers + grown_megabytes) * MB
        tokens = round(1e6 * next(self._speeds[workers]))
        return make_tally(wall_s=1.0, tokens=tokens, peak_pss_bytes=pss_bytes)

    def report_progress(self, number: int, candidate: Candidate) -> None:
        """Note a dropped candidate."""
        if candidate.status != "open":
            self.reported.append((number, candidate.workers, candidate.status))

    def tried(self, budget_megabytes: int = 4000) -> list[Candidate]:
        """Try all candidates."""
        return try_candidates(
            self.untried, budget_megabytes * MB, self.measure, self.report_progress
        )


def test_three_rounds_in_turns_decide() -> None:
    """Every candidate is tried once a round, and slower ones are dropped after the third."""
    machine = Machine(w0=[5.0], w1=[9.0], w2=[10.0])
    found = machine.tried()
    assert machine.asked == [0, 1, 2, 2, 1, 0, 0, 1, 2]
    assert _statuses(found) == {0: "slower", 1: "slower", 2: "open"}
    assert [len(candidate.runs) for candidate in found] == [3, 3, 3]
    assert machine.reported == [(3, 0, "slower"), (3, 1, "slower")]


def test_rounds_that_differ_call_for_more() -> None:
    """There are at most six rounds, of candidates that may still be chosen."""
    machine = Machine(w0=[5.0], w1=[7.0, 11.0], w2=[10.0])
    found = machine.tried()
    assert machine.asked == [0, 1, 2, 2, 1, 0, 0, 1, 2, 2, 1, 1, 2, 2, 1]
    assert _statuses(found) == {0: "slower", 1: "open", 2: "open"}
    assert [len(candidate.runs) for candidate in found] == [3, 6, 6]


def test_a_candidate_above_the_budget_is_not_started() -> None:
    """The memory of 0 and 1 workers shows that 2 would take 300 MB."""
    machine = Machine(w0=[5.0], w1=[9.0], w2=[10.0], w4=[20.0])
    found = machine.tried(budget_megabytes=250)
    assert set(machine.asked) == {0, 1}
    assert _statuses(found) == {0: "slower", 1: "open", 2: "over budget", 4: "over budget"}
    assert machine.reported[:2] == [(1, 2, "over budget"), (1, 4, "over budget")]
    assert re.search("300 MB.* 0 and 1,.*250 MB", found[2].reason)


def test_a_candidate_that_took_too_much_is_not_tried_again() -> None:
    """The 200 MB of 1 worker are known only after its first run."""
    machine = Machine(w0=[5.0], w1=[9.0])
    found = machine.tried(budget_megabytes=150)
    assert machine.asked == [0, 1, 0, 0]
    assert _statuses(found) == {0: "open", 1: "over budget"}


def test_measured_memory_takes_precedence() -> None:
    """In the second round 1 takes 250 MB, and 2 would take 400 MB by that; it took 300 MB."""
    machine = Machine(w0=[5.0], w1=[9.0], w2=[10.0])
    machine.growing_megabytes[1] = 50
    found = machine.tried(budget_megabytes=340)
    assert _statuses(found) == {0: "slower", 1: "slower", 2: "open"}


def test_a_candidate_that_fails_is_left_out() -> None:
    """A candidate that fails keeps its error, and the others go on."""
    machine = Machine(w0=[5.0], w1=[9.0], w2=[10.0])
    machine.failing = {2: SessionError("OSError: no shared memory\n  File x")}
    found = machine.tried()
    assert machine.asked == [0, 1, 2, 1, 0, 0, 1]
    assert _statuses(found) == {0: "slower", 1: "open", 2: "failed"}
    assert found[2].reason == str(machine.failing[2])


def test_when_all_fail_the_last_error_is_raised() -> None:
    """The last error is raised if no candidate is left."""
    machine = Machine(w0=[5.0], w1=[9.0])
    machine.failing = {0: SessionError("first"), 1: SessionError("disk gone")}
    with pytest.raises(SessionError, match="disk gone"):
        machine.tried()
    assert machine.asked == [0, 1]


def test_a_budget_below_the_least_is_an_error() -> None:
    """The error says what the smallest candidate takes; two runs show that a third takes more."""
    machine = Machine(w0=[5.0], w1=[9.0], w2=[9.0])
    with pytest.raises(InputError, match=r"100 MB.*Give more") as caught:
        machine.tried(90)
    assert caught.value.where == "--memory-budget"
    assert machine.asked == [0, 1]


# ---- The budget


def _tried(workers: int, *megabytes: int) -> Candidate:
    runs = tuple(make_tally(peak_pss_bytes=megabyte * MB) for megabyte in megabytes)
    return Candidate(workers, runs)


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [("4GB", 4 * 10**9), ("1.5 GiB", 3 * 2**29), ("300MB", 300 * MB), ("1MiB", 2**20)],
)
def test_a_budget_has_a_unit(text: str, size_bytes: int) -> None:
    """Units are decimal or binary."""
    assert parse_budget(text) == size_bytes


@pytest.mark.parametrize("text", ["4", "GB", "-4GB", "4gb", "0GB", "0.0001 B", "", "4GB/s"])
def test_another_budget_is_refused(text: str) -> None:
    """The error names the units and the value."""
    with pytest.raises(InputError, match=f"--memory-budget: .*GB.*'{text}'"):
        parse_budget(text)


def test_processes_are_known_from_smaller_candidates() -> None:
    """Every worker adds the same memory: 100 MB from 1 to 2, so 4 take 430 MB."""
    smaller = [_tried(0, 130), _tried(1, 130, 120), _tried(2, 230)]
    four = Candidate(4)
    assert foresee_excess(four, smaller, 430 * MB) == ""
    assert re.search("430 MB.* 1 and 2,.*429 MB", foresee_excess(four, smaller, 429 * MB))
    assert foresee_excess(four, smaller[:1], MB) == ""


def test_more_workers_never_need_less() -> None:
    """If the smaller candidate took more memory, the larger one's is not extrapolated down."""
    smaller = [_tried(1, 240), _tried(2, 230)]
    assert foresee_excess(Candidate(4), smaller, 230 * MB) == ""
    assert "would take 230 MB" in foresee_excess(Candidate(4), smaller, 229 * MB)


def test_the_most_memory_of_any_run_counts() -> None:
    """The highest memory of any run counts; exactly the budget is not above it."""
    machine = Machine(w0=[5.0], w1=[9.0])
    machine.growing_megabytes[1] = 50
    assert _statuses(machine.tried(budget_megabytes=300))[1] == "open"
    machine = Machine(w0=[5.0], w1=[9.0])
    machine.growing_megabytes[1] = 50
    assert _statuses(machine.tried(budget_megabytes=299))[1] == "over budget"
