"""What a performance test fails on, and what it leaves open."""

from contextlib import nullcontext
from typing import Any

import pytest

from netpipe.harness.errors import (
    InconclusiveError,
    MisuseError,
    PipelineOrderError,
    PipelineTooSlowError,
)
from netpipe.harness.expect import (
    Limits,
    expect_loading_below_step,
    expect_no_stall,
    expect_order,
)
from tests.harness.measurements import CPU, EMULATED, GPU, make_measurement, spread


def refused(error: type[Exception] | None, match: str | None = None) -> Any:
    """Expect the error, or none."""
    return nullcontext() if error is None else pytest.raises(error, match=match)


@pytest.mark.parametrize(
    ("load_s", "limits", "error"),
    [
        (0.029, Limits(), None),
        (0.031, Limits(), PipelineTooSlowError),
        (spread(0.028, 0.029, 0.031), Limits(), InconclusiveError),
        (spread(0.029, 0.031, 0.032), Limits(), InconclusiveError),
        (0.024, Limits(headroom=1.25), None),
        (0.025, Limits(headroom=1.25), PipelineTooSlowError),
    ],
)
def test_loading_must_leave_its_headroom(load_s: Any, limits: Limits, error: Any) -> None:
    """Headroom that surely misses its limit fails, one that may miss it is left open."""
    with refused(error, r"loading a batch takes .* the synthetic step 30 ms"):
        expect_loading_below_step(make_measurement(load_s=load_s), limits)


def test_a_slow_loader_is_named_with_its_figures() -> None:
    """The first line says which side is too slow, how fast it is and what was asked for."""
    measurement = make_measurement(load_s=0.060)
    with pytest.raises(PipelineTooSlowError) as caught:
        expect_loading_below_step(measurement, Limits(headroom=1.1))
    assert str(caught.value) == (
        "loader too slow: loading a batch takes 60 ms (60 to 60 ms), the synthetic step 30 ms "
        "(30 to 30 ms): headroom 0.50 (0.50 to 0.50), at least 1.10 asked for"
    )


@pytest.mark.parametrize("device", [GPU, EMULATED])
@pytest.mark.parametrize(
    ("changed", "limits", "error"),
    [
        ({}, Limits(), None),
        ({"train_s": 0.031}, Limits(), None),
        ({"train_s": 0.031}, Limits(stall_fraction=0.02), PipelineTooSlowError),
        ({"train_s": 0.036}, Limits(), PipelineTooSlowError),
        ({"train_s": 0.036}, Limits(stall_fraction=0.5), PipelineTooSlowError),
        ({"load_s": 0.040, "train_s": 0.040}, Limits(), PipelineTooSlowError),
        ({"rounds": 5}, Limits(), InconclusiveError),
        ({"drained": False}, Limits(), InconclusiveError),
    ],
)
def test_a_device_of_its_own_must_not_wait(
    device: Any, changed: dict[str, Any], limits: Limits, error: Any
) -> None:
    """A stall beyond the limit fails, and so does a verdict that is not fine."""
    with refused(error):
        expect_no_stall(make_measurement(device=device, **changed), limits)


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"train_s": 0.060}, None),
        ({"load_s": 0.040, "train_s": 0.040}, PipelineTooSlowError),
        ({"train_s": 0.038, "sync_probe_fraction": 1.0}, PipelineTooSlowError),
        ({"rounds": 5}, InconclusiveError),
    ],
)
def test_on_shared_cores_only_the_verdict_counts(changed: dict[str, Any], error: Any) -> None:
    """On a CPU device a stall by contention passes; a slow loader or a sync fails there too."""
    with refused(error):
        expect_no_stall(make_measurement(device=CPU, **changed), Limits())


def test_a_stall_is_named_with_its_cause_and_what_to_do() -> None:
    """The first line is the verdict's message; the last says what to do about it."""
    with pytest.raises(PipelineTooSlowError) as caught:
        expect_no_stall(make_measurement(load_s=0.040, train_s=0.040), Limits())
    first, *evidence, last = str(caught.value).splitlines()
    assert first == "loader-bound: loading a batch takes 40 ms, the step 30 ms"
    assert "headroom S0/L = 0.75 (0.75 to 0.75)" in evidence
    assert last.startswith("next: ")


def _finding(severity: str, rule: str) -> dict[str, str]:
    return {"severity": severity, "rule": rule, "message": "m", "cost": "c", "fix": "f"}


@pytest.mark.parametrize("severity", ["warning", "info"])
def test_an_order_may_have_warnings(severity: str) -> None:
    """Only errors of a lint fail."""
    expect_order({"findings": [_finding(severity, "no-prefetch")]})


def test_an_order_with_errors_is_refused() -> None:
    """Every error is there with its rule, its cost and its mend; warnings are not."""
    findings = [
        _finding("error", "batch-after-mp-prefetch"),
        _finding("warning", "no-workers"),
        _finding("error", "nested-mp-prefetch"),
    ]
    with pytest.raises(PipelineOrderError) as caught:
        expect_order({"findings": findings})
    first, *mend, second = str(caught.value).splitlines()[:4]
    assert "order" in first
    assert first.endswith("batch-after-mp-prefetch: m")
    assert mend == ["cost: c", "fix: f"]
    assert second.endswith("nested-mp-prefetch: m")
    assert "no-workers" not in str(caught.value)


@pytest.mark.parametrize("chosen", [{"headroom": "2"}, {"headroom": -1}, {"stall_fraction": 1.5}])
def test_a_limit_outside_its_range_is_misuse(chosen: dict[str, Any]) -> None:
    """A limit that no measurement could miss, or none could meet, is refused with its value."""
    with pytest.raises(MisuseError, match=f"found {next(iter(chosen.values()))!r}"):
        Limits(**chosen)
