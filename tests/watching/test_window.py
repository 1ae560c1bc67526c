"""The verdict on a window of a watched run."""

from typing import Any

import pytest

from netpipe.results.fields import Interval
from netpipe.watching.window import judge, sampled_fraction
from tests.watching.windows import make_figures


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        ({}, "loader-bound"),
        ({"waiting_fraction": 0.04, "exposed_fraction": None}, "healthy"),
        ({"exposed_fraction": Interval(0.0, 0.0, 0.02, 200)}, "healthy"),
        ({"exposed_fraction": Interval(0.06, 0.03, 0.1, 200)}, "inconclusive"),
        ({"exposed_fraction": None, "synced_fraction": None}, "inconclusive"),
        ({"worst_tenth_fraction": 0.7}, "jitter"),
        ({"worst_tenth_fraction": 0.7, "batches": 6}, "loader-bound"),
        (
            {"worst_tenth_fraction": 0.9, "exposed_fraction": Interval(0.55, 0.5, 0.6, 200)},
            "loader-bound",
        ),
        ({"synced_fraction": 1.0, "own_work_fraction": 0.9}, "forced-sync"),
        ({"synced_fraction": 1.0, "own_work_fraction": 0.9, "step_s": 0.03}, "loader-bound"),
        ({"synced_fraction": 1.0}, "loader-bound"),
        ({"batches": 0, "wait_s": None, "step_s": None, "waiting_fraction": 1.0}, "loader-bound"),
        ({"batches": 0, "wait_s": None, "step_s": None, "waiting_fraction": 0}, "inconclusive"),
    ],
)
def test_each_kind_needs_its_evidence(given: dict[str, Any], kind: str) -> None:
    """A stall must be certain, and so must be that there is none."""
    assert judge(make_figures(**given)).kind == kind


def test_a_loop_that_reads_each_result_should_read_it_late() -> None:
    """The advice comes before the diagnosis, whatever loads."""
    judged = judge(make_figures(synced_fraction=1.0))
    assert "most steps are done before the next request" in judged.message
    assert judged.next.startswith("if the loop reads each result, read it a step late")
    assert "netpipe diagnose" in judged.next
    assert "late" not in judge(make_figures(synced_fraction=0.2)).next


def test_a_slow_start_is_no_verdict() -> None:
    """Before the first batch, a loader may be starting."""
    starting = make_figures(batches=0, wait_s=None, step_s=None, waiting_fraction=1.0)
    assert judge(starting, batches_before=0).kind == "inconclusive"


def test_a_wait_that_the_device_may_hide_is_no_stall() -> None:
    """Without the third line, only the host's wait is known, and the way out is named."""
    judged = judge(make_figures(exposed_fraction=None))
    assert "the loop waits for batches 40.0% of the time" in judged.message
    assert "on_step_end" in judged.next


@pytest.mark.parametrize(
    ("hits", "samples", "low", "high"),
    [(0, 200, 0.0, 0.0188), (0, 26, 0.0, 0.1287), (10, 200, 0.0274, 0.0896), (1, 1, 0.2065, 1.0)],
)
def test_a_sampled_fraction_has_wilsons_interval(
    hits: int, samples: int, low: float, high: float
) -> None:
    """The ends agree with published values (Wilson, 95%)."""
    found = sampled_fraction(hits, samples)
    assert found is not None
    assert (found.median, found.n) == (hits / samples, samples)
    assert 0 <= found.low <= found.median <= found.high <= 1
    assert (found.low, found.high) == pytest.approx((low, high), abs=5e-4)
    assert sampled_fraction(0, 0) is None
