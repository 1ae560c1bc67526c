"""The assertions of performance tests."""

from collections.abc import Iterator
from contextlib import contextmanager
from math import inf
from typing import Any

import pytest

from netpipe.errors import InconclusiveError, MisuseError, PipelineOrderError, PipelineTooSlowError
from netpipe.results.measurement import Interval
from netpipe.testing import (
    Limits,
    expect_footprint,
    expect_loading_below_step,
    expect_no_stall,
    expect_order,
)
from tests.measurements import CPU, EMULATED, GPU, make_measurement, spread


@contextmanager
def refused(error: type[Exception] | None, match: str | None = None) -> Iterator[None]:
    """Expect an error, or none."""
    try:
        if error is None:
            yield
        else:
            with pytest.raises(error, match=match):
                yield
    except InconclusiveError as opened:  # our plugin would make it a skip
        pytest.fail(f"left open: {opened}")


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
    """Headroom that surely misses its limit fails; one that may miss it is inconclusive."""
    with refused(error, r"loading a batch takes .* the synthetic step 30 ms"):
        expect_loading_below_step(make_measurement(load_s=load_s), limits)


@pytest.mark.parametrize(
    ("changed", "words"),
    [({"drained": False}, "drained"), ({"batch_bytes": 0}, "batches are empty")],
)
def test_a_loader_that_only_seems_fast_is_left_open(changed: dict[str, Any], words: str) -> None:
    """Lent speed and empty batches prove no headroom; a loader slow even so is too slow."""
    with pytest.raises(InconclusiveError, match=words):
        expect_loading_below_step(make_measurement(**changed), Limits())
    with pytest.raises(PipelineTooSlowError, match="loader too slow"):
        expect_loading_below_step(make_measurement(load_s=0.031, **changed), Limits())


def test_a_slow_loader_is_named_with_its_figures() -> None:
    """The first line has both times, the headroom and its limit."""
    measurement = make_measurement(load_s=0.060)
    with pytest.raises(PipelineTooSlowError) as caught:
        expect_loading_below_step(measurement, Limits(headroom=1.1))
    assert str(caught.value) == (
        "loader too slow: loading a batch takes 60 ms (60 to 60 ms), the synthetic step 30 ms "
        "(30 to 30 ms): headroom 0.50 (0.50 to 0.50), at least 1.10 required"
    )


@pytest.mark.parametrize("device", [GPU, EMULATED])
@pytest.mark.parametrize(
    ("changed", "limits", "error"),
    [
        ({}, Limits(), None),
        ({"train_s": 0.031}, Limits(), None),
        ({"train_s": 0.031}, Limits(stall_fraction=0.02), PipelineTooSlowError),
        ({"train_s": spread(0.0305, 0.031, 0.0314)}, Limits(0.0, 0.02), InconclusiveError),
        ({"train_s": spread(0.0302, 0.0305, 0.0314)}, Limits(0.0, 0.02), None),
        ({"train_s": spread(0.0305, 0.036, 0.036)}, Limits(), InconclusiveError),
        ({"train_s": 0.036}, Limits(), PipelineTooSlowError),
        ({"train_s": 0.036}, Limits(stall_fraction=0.5), PipelineTooSlowError),
        ({"load_s": 0.040, "train_s": 0.040}, Limits(), PipelineTooSlowError),
        ({"rounds": 3}, Limits(), None),
        ({"rounds": 2}, Limits(), InconclusiveError),
        ({"drained": False}, Limits(), InconclusiveError),
        ({"batch_bytes": 0}, Limits(), InconclusiveError),
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
        ({"train_s": spread(0.0305, 0.036, 0.060), "shadow_s": 0.036}, None),
        ({"train_s": spread(0.0305, 0.036, 0.060)}, InconclusiveError),
        ({"load_s": 0.040, "train_s": 0.040}, PipelineTooSlowError),
        ({"load_s": 0.040, "train_s": 0.070}, PipelineTooSlowError),
        ({"train_s": 0.038, "sync_probe_fraction": 1.0}, PipelineTooSlowError),
        ({"rounds": 2}, InconclusiveError),
        ({"batch_bytes": 0}, InconclusiveError),
    ],
)
def test_on_shared_cores_only_the_verdict_counts(changed: dict[str, Any], error: Any) -> None:
    """On a CPU device a stall by contention passes; a slow loader or a sync fails there too."""
    with refused(error):
        expect_no_stall(make_measurement(device=CPU, **changed), Limits())


@pytest.mark.parametrize(
    ("train_s", "error", "first"),
    [
        (0.031, PipelineTooSlowError, "training waits: stall fraction 0.03 (0.03 to 0.03)"),
        (
            spread(0.030, 0.031, 0.0314),
            InconclusiveError,
            "inconclusive: stall fraction 0.03 (0.00 to 0.04)",
        ),
    ],
)
def test_a_missed_stall_limit_comes_before_the_verdict(
    train_s: Any, error: type[Exception], first: str
) -> None:
    """The missed limit comes first, then the verdict's message."""
    with pytest.raises(error) as caught:
        expect_no_stall(make_measurement(train_s=train_s), Limits(stall_fraction=0.02))
    limit, verdict, *_, last = str(caught.value).splitlines()
    assert limit.startswith(first)
    assert "0.02" in limit
    assert verdict.startswith("healthy: ")
    assert last == "next: nothing"


def test_a_stall_is_named_with_its_cause_and_what_to_do() -> None:
    """The first line is the verdict's message, and the last the remedy."""
    with pytest.raises(PipelineTooSlowError) as caught:
        expect_no_stall(make_measurement(load_s=0.040, train_s=0.040), Limits())
    first, *evidence, last = str(caught.value).splitlines()
    assert first.startswith("loader-bound: ")
    assert "40 ms" in first
    assert "30 ms" in first
    assert "headroom S0/L = 0.75 (0.75 to 0.75)" in evidence
    assert last.startswith("next: ")


@pytest.mark.parametrize(
    ("limits", "error", "match"),
    [
        ({}, None, None),
        ({"first_batch_s": 2.0}, None, None),
        ({"first_batch_s": 1.4}, PipelineTooSlowError, r"first_batch_s is 1.5 s, at most 1.4 s"),
        ({"peak_pss_bytes": 4.1e8}, None, None),
        ({"peak_pss_bytes": 3.9e8}, PipelineTooSlowError, r"400 MB, at most 390 MB .* worker 1"),
        ({"growth_bytes_per_batch": 1600}, None, None),
        ({"growth_bytes_per_batch": 600}, InconclusiveError, r"500 B to 1.5 kB, at most 600 B"),
        ({"growth_bytes_per_batch": 400}, PipelineTooSlowError, r"400 B .* worker 1 \(pid 7\)"),
    ],
)
@pytest.mark.parametrize("expect", [expect_footprint, expect_loading_below_step, expect_no_stall])
def test_the_footprint_keeps_its_limits(
    expect: Any, limits: dict[str, float], error: Any, match: str
) -> None:
    """A figure above its limit fails with the process; an interval around it is inconclusive."""
    with refused(error, match):
        expect(make_measurement(), Limits(**limits))


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("peak_pss_bytes", None),
        ("growth_bytes_per_batch", None),
        ("growth_bytes_per_batch", Interval(0.0, -inf, inf, 4)),
    ],
)
def test_a_limit_of_what_was_not_measured_is_left_open(name: str, found: Any) -> None:
    """No limit passes unjudged."""
    measured = make_measurement(**{name: found})
    with refused(InconclusiveError, rf"{name} was not measured"):
        expect_footprint(measured, Limits(**{name: 1e9}))


GRAPH = [{"made_at": "mine.py:3"}, {"made_at": ""}, {"made_at": "mine.py:7"}]


def _finding(severity: str, rule: str) -> dict[str, Any]:
    told = {"message": "m", "cost": "c", "fix": "f"}
    return {"severity": severity, "rule": rule, "nodes": [2, 1, 0, 2], **told}


@pytest.mark.parametrize("severity", ["warning", "info"])
def test_an_order_may_have_warnings(severity: str) -> None:
    """Only errors of a lint fail."""
    expect_order({"findings": [_finding(severity, "no-prefetch")], "graph": GRAPH})


def test_an_order_that_was_not_read_is_left_open() -> None:
    """A loader without a graph proves nothing, unless the rule that says so is silenced."""
    with pytest.raises(InconclusiveError, match=r"inconclusive: m\. f, or silence no-grain-graph"):
        expect_order({"findings": [_finding("info", "no-grain-graph")], "graph": []})
    expect_order({"findings": [_finding("info", "no-grain-graph")], "graph": GRAPH})
    expect_order({"findings": [], "graph": []})


def test_an_order_with_errors_is_refused() -> None:
    """The message has every error with its rule, cost and fix, and no warnings."""
    findings = [
        _finding("error", "batch-after-mp-prefetch"),
        _finding("warning", "no-workers"),
        _finding("error", "nested-mp-prefetch"),
    ]
    with pytest.raises(PipelineOrderError) as caught:
        expect_order({"findings": findings, "graph": GRAPH})
    first, *mend, second = str(caught.value).splitlines()[:5]
    assert "order" in first
    assert first == "order: batch-after-mp-prefetch: m"
    assert mend == ["at: mine.py:7, mine.py:3", "cost: c", "fix: f"]
    assert second.endswith("nested-mp-prefetch: m")
    assert "no-workers" not in str(caught.value)


@pytest.mark.parametrize(
    "chosen",
    [
        {"headroom": "2"},
        {"headroom": -1},
        {"headroom": inf},
        {"stall_fraction": 1.5},
        {"peak_pss_bytes": "4 GB"},
        {"growth_bytes_per_batch": -1},
    ],
)
def test_a_limit_outside_its_range_is_misuse(chosen: dict[str, Any]) -> None:
    """A limit that every or no measurement could meet is refused with its value."""
    with pytest.raises(MisuseError, match=f"found {next(iter(chosen.values()))!r}"):
        Limits(**chosen)
