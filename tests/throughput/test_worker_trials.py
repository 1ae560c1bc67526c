"""Trials in turns within a memory budget, until the choice is clear."""

from itertools import cycle

import pytest

from netpipe.errors import InputError, MisuseError, SessionError
from netpipe.throughput.figures import Tally
from netpipe.throughput.worker_choice import Candidate
from netpipe.throughput.worker_trials import foresee_excess, parse_budget, try_candidates
from tests.throughput.tallies import make_tally

MB = 10**6


class Machine:
    """Gives tallies instead of running anything, and remembers what was asked and reported."""

    def __init__(self, **speeds: list[float]) -> None:
        self._speeds = {int(name[1:]): cycle(of_rounds) for name, of_rounds in speeds.items()}
        self.untried = [Candidate(workers, MB) for workers in self._speeds]
        self.asked: list[int] = []
        self.reported: list[tuple[int, int, str]] = []
        self.failing: dict[int, Exception] = {}
        self.growing_megabytes = dict.fromkeys(self._speeds, 0)

    def measure(self, workers: int) -> Tally:
        """A worker takes 100 MB, and so does the process that they work for."""
        self.asked.append(workers)
        if workers in self.failing:
            raise self.failing[workers]
        grown_megabytes = self.growing_megabytes[workers] * (self.asked.count(workers) - 1)
        pss_bytes = (100 + 100 * workers + grown_megabytes) * MB
        tokens = round(1e6 * next(self._speeds[workers]))
        return make_tally(wall_s=1.0, tokens=tokens, peak_pss_bytes=pss_bytes)

    def say(self, number: int, one: Candidate) -> None:
        """Remember what was left out."""
        if one.status != "open":
            self.reported.append((number, one.workers, one.status))

    def tried(self, budget_megabytes: int = 4000) -> list[Candidate]:
        """Try them all."""
        return try_candidates(self.untried, budget_megabytes * MB, self.measure, self.say)


def _statuses(candidates: list[Candidate]) -> dict[int, str]:
    return {one.workers: one.status for one in candidates}


def test_three_rounds_in_turns_decide() -> None:
    """Every candidate once a round; what is slower is known in the end."""
    machine = Machine(w0=[5.0], w1=[9.0], w2=[10.0])
    found = machine.tried()
    assert machine.asked == [0, 1, 2, 2, 1, 0, 0, 1, 2]
    assert _statuses(found) == {0: "slower", 1: "slower", 2: "open"}
    assert [len(one.runs) for one in found] == [3, 3, 3]
    assert machine.reported == [(3, 0, "slower"), (3, 1, "slower")]


def test_rounds_that_differ_call_for_more() -> None:
    """Six at most, and only of what may still be chosen."""
    machine = Machine(w0=[5.0], w1=[7.0, 11.0], w2=[10.0])
    found = machine.tried()
    assert machine.asked == [0, 1, 2, 2, 1, 0, 0, 1, 2, 2, 1, 1, 2, 2, 1]
    assert _statuses(found) == {0: "slower", 1: "open", 2: "open"}
    assert [len(one.runs) for one in found] == [3, 6, 6]


def test_more_rounds_end_when_they_decide() -> None:
    """In the fourth the median of the fewest has caught up."""
    machine = Machine(w1=[8.0, 8.0, 11.0, 11.0], w2=[10.0])
    found = machine.tried()
    assert machine.asked == [1, 2, 2, 1] * 2
    assert _statuses(found) == {1: "open", 2: "open"}


def test_the_hopeless_get_one_round() -> None:
    """Told in the round that it is left out of the next."""
    machine = Machine(w0=[1.0], w1=[9.0], w2=[10.0])
    found = machine.tried()
    assert machine.asked == [0, 1, 2, 2, 1, 1, 2]
    assert machine.reported[0] == (1, 0, "slower")
    assert len(found[0].runs) == 1


def test_what_would_take_too_much_is_never_started() -> None:
    """0 and 1 tell what a worker takes: 2 would take 300 MB."""
    machine = Machine(w0=[5.0], w1=[9.0], w2=[10.0], w4=[20.0])
    found = machine.tried(budget_megabytes=250)
    assert set(machine.asked) == {0, 1}
    assert _statuses(found) == {0: "slower", 1: "open", 2: "over budget", 4: "over budget"}
    assert machine.reported[:2] == [(1, 2, "over budget"), (1, 4, "over budget")]
    assert found[2].reason == ("would take 300 MB, going by 0 and 1, above the budget of 250 MB")


def test_what_took_too_much_is_not_tried_again() -> None:
    """Nothing showed before that 1 would take 200 MB."""
    machine = Machine(w0=[5.0], w1=[9.0])
    found = machine.tried(budget_megabytes=150)
    assert machine.asked == [0, 1, 0, 0]
    assert _statuses(found) == {0: "open", 1: "over budget"}


def test_what_was_measured_goes_before_what_is_expected() -> None:
    """In the second round 1 takes 250 MB, and 2 would take 400 MB by that; it took 300 MB."""
    machine = Machine(w0=[5.0], w1=[9.0], w2=[10.0])
    machine.growing_megabytes[1] = 50
    found = machine.tried(budget_megabytes=340)
    assert _statuses(found) == {0: "slower", 1: "slower", 2: "open"}


def test_a_candidate_that_fails_is_left_out() -> None:
    """With its error; the others go on."""
    machine = Machine(w0=[5.0], w1=[9.0], w2=[10.0])
    machine.failing = {2: SessionError("OSError: no shared memory\n  File x")}
    found = machine.tried()
    assert machine.asked == [0, 1, 2, 1, 0, 0, 1]
    assert _statuses(found) == {0: "slower", 1: "open", 2: "failed"}
    assert found[2].reason == "OSError: no shared memory\n  File x"


def test_when_all_fail_the_last_error_is_raised() -> None:
    """It is no choice; the last error stands for all."""
    machine = Machine(w0=[5.0], w1=[9.0])
    machine.failing = {0: SessionError("first"), 1: SessionError("disk gone")}
    with pytest.raises(SessionError, match="disk gone"):
        machine.tried()
    assert machine.asked == [0, 1]


def test_bad_data_end_it_at_once() -> None:
    """No other number of workers would read them."""
    machine = Machine(w0=[5.0], w1=[9.0])
    machine.failing = {0: MisuseError("data: file must be readable")}
    with pytest.raises(MisuseError, match="must be readable"):
        machine.tried()
    assert machine.asked == [0]


@pytest.mark.parametrize(
    ("finished_megabytes", "budget_megabytes", "least", "asked"),
    [(1, 90, "100 MB", [0, 1]), (50, 40, "50 MB", [])],
    ids=["measured", "finished batches"],
)
def test_a_budget_below_the_least_is_an_error(
    finished_megabytes: int, budget_megabytes: int, least: str, asked: list[int]
) -> None:
    """It says what the least candidate takes; nothing is run where that was known before."""
    machine = Machine(w0=[5.0], w1=[9.0], w2=[9.0])
    machine.untried = [Candidate(workers, finished_megabytes * MB) for workers in (0, 1, 2)]
    with pytest.raises(InputError, match=f"must be at least the {least}.*Give more") as caught:
        machine.tried(budget_megabytes)
    assert caught.value.where == "--memory-budget"
    assert machine.asked == asked


# ---- The budget


def _tried(workers: int, *megabytes: int) -> Candidate:
    runs = tuple(make_tally(peak_pss_bytes=megabyte * MB) for megabyte in megabytes)
    return Candidate(workers, MB, runs)


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [("4GB", 4 * 10**9), ("1.5 GiB", 3 * 2**29), ("300MB", 300 * MB), ("1MiB", 2**20)],
)
def test_a_budget_has_a_unit(text: str, size_bytes: int) -> None:
    """Decimal or binary, as it says."""
    assert parse_budget(text) == size_bytes


@pytest.mark.parametrize("text", ["4", "GB", "-4GB", "4gb", "0GB", "0.0001 B", "", "4GB/s"])
def test_another_budget_is_refused(text: str) -> None:
    """What it must be, and what was found."""
    with pytest.raises(InputError, match=f"--memory-budget: value must be a number.* '{text}'"):
        parse_budget(text)


def test_finished_batches_are_known_before_anything() -> None:
    """More of them than the budget holds are not tried."""
    many = Candidate(64, 401 * MB)
    reason = "401 MB of finished batches, above the budget of 400 MB"
    assert foresee_excess(many, [], 400 * MB) == reason
    assert foresee_excess(many, [], 401 * MB) == ""


def test_processes_are_known_from_smaller_candidates() -> None:
    """Every worker adds what the one before it did: 100 MB from 1 to 2, so 430 MB for 4."""
    smaller = [_tried(0, 130), _tried(1, 130, 120), _tried(2, 230)]
    four = Candidate(4, MB)
    assert foresee_excess(four, smaller, 430 * MB) == ""
    reason = "would take 430 MB, going by 1 and 2, above the budget of 429 MB"
    assert foresee_excess(four, smaller, 429 * MB) == reason
    assert foresee_excess(four, smaller[:1], MB) == ""


def test_more_workers_never_take_less() -> None:
    """Where noise made the smaller candidate dearer, the greater one still counts whole."""
    smaller = [_tried(1, 240), _tried(2, 230)]
    assert foresee_excess(Candidate(4, MB), smaller, 230 * MB) == ""
    assert "would take 230 MB" in foresee_excess(Candidate(4, MB), smaller, 229 * MB)


def test_the_most_memory_of_any_run_counts() -> None:
    """The highest of its runs, not the median; exactly the budget is not above it."""
    machine = Machine(w0=[5.0], w1=[9.0])
    machine.growing_megabytes[1] = 50
    assert _statuses(machine.tried(budget_megabytes=300))[1] == "open"
    machine = Machine(w0=[5.0], w1=[9.0])
    machine.growing_megabytes[1] = 50
    assert _statuses(machine.tried(budget_megabytes=299))[1] == "over budget"
