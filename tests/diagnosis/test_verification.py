"""A prediction beside what was measured."""

from dataclasses import replace

import pytest

from netpipe.diagnosis.cost_model import Parts, Work
from netpipe.diagnosis.prediction import Known
from netpipe.diagnosis.turns import SideBlocks
from netpipe.diagnosis.verification import verified
from netpipe.diagnosis.what_if import Change, changes
from tests.diagnosis.examples import interval, turns

KNOWN = Known(Parts(((Work(0.040, 0.0), True),), 1, 0, 8), (0.040,) * 3)


def two_workers() -> Change:
    """Return the change to two workers: half of the time."""
    return next(one for one in changes(KNOWN, None, (), None) if one.workers == 2)


def measured(before_s: float, after_s: float) -> SideBlocks:
    """Return turns of the loader as it is and with two workers."""
    return (
        SideBlocks(turns(a=before_s).rounds[:0], {}) if not before_s else _named(before_s, after_s)
    )


def _named(before_s: float, after_s: float) -> SideBlocks:
    made = turns(as_it_is=before_s, two=after_s)
    return SideBlocks(
        tuple({"as-it-is": one["as-it-is"], "2 workers": one["two"]} for one in made.rounds)
    )


LOAD = interval(0.040)


def test_a_prediction_is_held_against_the_measurement() -> None:
    """Foreseen are 20 ms, measured 25: a fifth too few."""
    found, unverified = verified(two_workers(), measured(0.040, 0.025), LOAD)
    assert found is not None
    assert unverified == ""
    assert found.predicted_s_per_batch.median == pytest.approx(0.020)
    assert found.measured_s_per_batch.median == pytest.approx(0.025)
    assert found.before_s_per_batch.median == pytest.approx(0.040)
    assert found.error_fraction == pytest.approx(-0.2)
    assert found.kind == "workers"
    assert found.says == "2 workers: predicted 20 ms, measured 25 ms (-20%) instead of 40 ms"


def test_a_machine_that_has_become_slower_is_no_error() -> None:
    """All is twice as slow as when it was foreseen: the ratio of the two is what counts."""
    found, _ = verified(two_workers(), measured(0.080, 0.040), LOAD)
    assert found is not None
    assert found.error_fraction == pytest.approx(0.0)
    assert found.predicted_s_per_batch == two_workers().prediction
    assert found.measured_s_per_batch.median == pytest.approx(0.020)
    assert found.before_s_per_batch == LOAD


@pytest.mark.parametrize("side", ["2 workers", "as-it-is"])
def test_a_change_that_failed_is_not_verified(side: str) -> None:
    """The reason is told, whichever of the two it was."""
    failed = replace(measured(0.040, 0.020), failures={side: "out of memory"})
    rounds = tuple({k: v for k, v in one.items() if k != side} for one in failed.rounds)
    found, unverified = verified(two_workers(), replace(failed, rounds=rounds), LOAD)
    assert found is None
    assert unverified == "2 workers could not be tried: out of memory"


def test_a_change_that_was_never_measured_had_no_time() -> None:
    """Turns without rounds and without a reason."""
    found, unverified = verified(two_workers(), SideBlocks(), LOAD)
    assert found is None
    assert unverified.endswith("no time was left")
