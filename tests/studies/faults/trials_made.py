"""Made-up trials of cases."""

from dataclasses import replace
from typing import Any

from perf_tests.studies.faults.trials import Trial

_FAULT = Trial(
    case="slow-source",
    expected="loader-bound",
    kinds=("loader-bound",),
    finding=None,
    names="",
    control=False,
    seed=1,
    values={"step_s": 0.02},
    called="loader-bound",
    message="loader-bound: too slow",
    findings={},
    first_message=None,
    elapsed_s=8.0,
)


def fault(called: str = "loader-bound", **overrides: Any) -> Trial:
    """Make the trial of a fault that must be called loader-bound."""
    return replace(_FAULT, called=called, message=f"{called}: because", **overrides)


def control(called: str = "healthy", **overrides: Any) -> Trial:
    """Make the trial of a control."""
    healthy = {"case": "fine", "expected": "healthy", "kinds": ("healthy",), "control": True}
    return fault(called, **{**healthy, **overrides})
