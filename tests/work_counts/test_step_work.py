"""The work of a step per batch."""

import numpy as np
import pytest

from netpipe.work_counts.step_work import count_step_work, describe_backend
from tests.work_counts import work_targets as targets

STATE_BYTES = 4 << 20
BATCHES = [targets.stack([np.ones(targets.LENGTH, np.int32)] * targets.ROWS)] * 2


def test_a_step_is_counted() -> None:
    """FLOPs that the step knows are used, and a donated state is not kept."""
    counts, not_counted = count_step_work(targets.step, BATCHES, None, 12e9)
    assert counts["step_flops"] == 12e9
    assert counts["step_accessed_bytes"] >= STATE_BYTES
    assert counts["step_kept_state_bytes"] == 0
    assert counts["step_compilations"] >= 1
    assert not not_counted


def test_xla_counts_the_flops_of_a_step_that_knows_none() -> None:
    """One addition and two sums of a million numbers take at least that many FLOPs."""
    counts, _ = count_step_work(targets.step, BATCHES, None, None)
    assert counts["step_flops"] >= 1 << 20


def test_a_state_that_is_not_donated_is_kept() -> None:
    """The bytes of a state that is not donated stay allocated."""
    counts, _ = count_step_work(targets.keeping_step, BATCHES, None, None)
    assert counts["step_kept_state_bytes"] == STATE_BYTES


def test_a_step_that_xla_cannot_analyse_says_why() -> None:
    """Counts that need no analysis are still there."""
    counts, not_counted = count_step_work(targets.impure_step, BATCHES, None, 5.0)
    assert counts["step_flops"] == 5.0
    assert set(not_counted) == {"step_accessed_bytes", "step_temporary_bytes"}
    assert "XLA cannot analyse the step" in not_counted["step_temporary_bytes"]
    assert counts["step_kept_state_bytes"] == 0


@pytest.mark.parametrize("part", ["jaxlib", "cpu"])
def test_the_backend_is_named(part: str) -> None:
    """The backend has the version of jaxlib and the device."""
    assert part in describe_backend().lower()
