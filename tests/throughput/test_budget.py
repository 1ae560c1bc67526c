"""What loading may take, and what it will."""

import pytest

from netpipe.errors import InputError
from netpipe.throughput.budget import parse_budget, too_much_before, too_much_measured
from netpipe.throughput.candidates import Candidate
from tests.throughput.tallies import make_tally

MB = 10**6


def _tried(workers: int, *megabytes: int) -> Candidate:
    runs = tuple(make_tally(peak_pss_bytes=one * MB) for one in megabytes)
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
    assert too_much_before(many, [], 400 * MB) == reason
    assert too_much_before(many, [], 401 * MB) == ""


def test_processes_are_known_from_smaller_candidates() -> None:
    """Every worker adds what the one before it did: 100 MB from 1 to 2, so 430 MB for 4."""
    smaller = [_tried(0, 130), _tried(1, 130, 120), _tried(2, 230)]
    four = Candidate(4, MB)
    assert too_much_before(four, smaller, 430 * MB) == ""
    reason = "would take 430 MB, going by 1 and 2, above the budget of 429 MB"
    assert too_much_before(four, smaller, 429 * MB) == reason
    assert too_much_before(four, smaller[:1], MB) == ""


def test_more_workers_never_take_less() -> None:
    """Where noise made the smaller candidate dearer, the greater one still counts whole."""
    smaller = [_tried(1, 240), _tried(2, 230)]
    assert too_much_before(Candidate(4, MB), smaller, 230 * MB) == ""
    assert "would take 230 MB" in too_much_before(Candidate(4, MB), smaller, 229 * MB)


def test_the_most_of_any_run_counts() -> None:
    """Not the median: memory is short once, or not at all."""
    assert too_much_measured(_tried(2, 200, 300, 200), 300 * MB) == ""
    reason = "took 300 MB, above the budget of 299 MB"
    assert too_much_measured(_tried(2, 200, 300, 200), 299 * MB) == reason
