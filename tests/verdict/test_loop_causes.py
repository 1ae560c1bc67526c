"""Loops that wait for the device, or whose own work takes too long."""

import re
from dataclasses import replace
from typing import Any

import pytest

from netpipe.results.measurement import BlockingLine
from netpipe.verdict.decision import find_remarks, judge
from tests.measurements import CPU, EMULATED, make_measurement, spread
from tests.verdict.stalls import SERIAL, SYNCED, waits

LINES = (
    BlockingLine("train.py", 42, 'float(aux["loss"])', 0.97),
    BlockingLine("log.py", 7, "", 0.03),
)


@pytest.mark.parametrize("host_s", [0.0001, 0.031])
def test_the_line_that_blocks_is_named(host_s: float) -> None:
    """The message names the worst line; the evidence has all lines with their shares."""
    measurement = make_measurement(**SERIAL, **SYNCED, host_s=host_s, blocking_lines=LINES)
    verdict = judge(measurement)
    assert verdict.kind == ("forced-sync" if host_s < 0.03 else "host-bound")
    assert 'train.py:42 `float(aux["loss"])`' in verdict.message
    assert "log.py" not in verdict.message
    worst, other = (figure for figure in verdict.evidence if ".py" in figure)
    assert re.match(r'97\.0%.* train\.py:42: float\(aux\["loss"\]\)$', worst)
    assert re.match(r"3\.0%.* log\.py:7: $", other)


@pytest.mark.parametrize(
    ("waiting", "working", "kind"),
    [
        ((0.9, 0.14), (0.1, 1.0), "forced-sync"),
        ((0.25, 0.0), (0.75, 0.5), "forced-sync"),
        ((0.24, 0.0), (0.76, 0.5), "contention"),
        ((0.0, 0.0), (0.9, 0.16), "contention"),
    ],
)
def test_work_that_the_loader_slows_is_no_sync(
    waiting: tuple[float, float], working: tuple[float, float], kind: str
) -> None:
    """Steps are also done early if the loop works but lacks Python's lock."""
    lines = tuple(BlockingLine("a.py", 1, "", *shares) for shares in (waiting, working))
    slowed: dict[str, Any] = {"train_s": 0.042, "host_s": 0.020, "blocking_lines": lines, **SYNCED}
    assert judge(make_measurement(**slowed)).kind == kind
    # Little work, worker processes, or loading in the loop's own thread do not count.
    for other in ({"host_s": 0.0059}, {"loader_processes": 2}, {"wait_s": waits(0.0106)}):
        assert judge(make_measurement(**{**slowed, **other})).kind != "contention"


@pytest.mark.parametrize(
    ("changed", "kind"),
    [
        ({}, "forced-sync"),
        ({"blocking_lines": (replace(LINES[0], fraction=0.49),)}, "no-overlap"),
        ({"blocking_lines": ()}, "no-overlap"),
        ({"train_s": 0.0349}, "unexplained"),
        ({"blocking_lines": (replace(LINES[0], working_fraction=0.15),)}, "no-overlap"),
        ({"host_s": 0.0039}, "forced-sync"),
        ({"host_s": 0.0041}, "no-overlap"),
        ({"host_s": 0.032}, "host-bound"),
    ],
)
def test_a_step_that_syncs_itself_is_found_by_its_line(changed: dict[str, Any], kind: str) -> None:
    """If every step is done when it returns, a blocking line in the trainer decides."""
    void = {**SERIAL, "sync_probe_fraction": 1.0, "sync_probe_idle_fraction": 1.0}
    assert judge(make_measurement(**{**void, "blocking_lines": LINES, **changed})).kind == kind


# An 8 ms loader in the trainer's thread, a noisy CPU step of 70 ms, and float(loss) each step.
COSTLY: dict[str, Any] = {
    "load_s": 0.008,
    "step_s": spread(0.066, 0.070, 0.078),
    "train_s": spread(0.078, 0.0785, 0.079),
    "exposed_s": spread(0.0080, 0.0082, 0.0085),
    "device": CPU,
    "wait_s": waits(0.008),
    "blocking_lines": (BlockingLine("train.py", 42, "float(loss)", 0.97),),
    **SYNCED,
}


def test_a_sync_that_exposes_the_loader_is_a_verdict() -> None:
    """If the step is too noisy to judge R, the time that a sync exposes decides."""
    measurement = make_measurement(**COSTLY)
    verdict = judge(measurement)
    assert verdict.kind == "forced-sync"
    assert re.search(r"train\.py:42 `float\(loss\)`.* 78\.5 ms .* 70\.3 ms", verdict.message)
    (cost,) = (figure for figure in verdict.evidence if "idles" in figure)
    assert re.search(r" 8\.2 ms a step.* 0\.10 \(0\.10 to 0\.11\) of R", cost)
    assert not verdict.passes(measurement)


@pytest.mark.parametrize(
    ("changed", "kind"),
    [
        ({"exposed_s": 0.0041}, "forced-sync"),
        ({"exposed_s": 0.0038}, "inconclusive"),
        ({"exposed_s": spread(0.0030, 0.0082, 0.0085)}, "inconclusive"),
        ({"exposed_s": 0.0001}, "inconclusive"),
        # R shows no stall, but a sync may cost more than the limit.
        ({"step_s": 0.078, "exposed_s": spread(0.0030, 0.0082, 0.0085)}, "inconclusive"),
        ({"step_s": 0.078, "exposed_s": spread(0.0030, 0.0035, 0.0085)}, "healthy"),
        (
            {
                "step_s": 0.078,
                "exposed_s": spread(0.0030, 0.0082, 0.0085),
                "sync_probe_idle_fraction": 0.3,
            },
            "healthy",
        ),
        # Without a sync, or with a probe that always sees one, nothing is blamed.
        ({"sync_probe_fraction": 0.02}, "inconclusive"),
        ({"sync_probe_idle_fraction": 0.3}, "inconclusive"),
        # The loop's own work is the cause if it outlasts the step.
        ({"host_s": 0.079}, "host-bound"),
        # A sync loses the shorter of loading and computing, which would otherwise overlap.
        (
            {"load_s": 0.300, "step_s": 0.010, "train_s": 0.312, "exposed_s": 0.300},
            "loader-bound",
        ),
        # A thread that requests a slow loader's batches early finds each step done, and waits.
        *(
            (
                {"load_s": 0.020, "step_s": 0.015, "train_s": 0.0203, "exposed_s": 0.015, **device},
                "loader-bound",
            )
            for device in ({}, {"device": EMULATED})
        ),
        # A step of microseconds is done at many requests, whatever the loop does.
        (
            {"load_s": 0.002, "step_s": 0.0003, "train_s": 0.00205, "exposed_s": 0.0003},
            "loader-bound",
        ),
        (
            {
                "load_s": 0.0007,
                "step_s": 0.001,
                "train_s": 0.00104,
                "exposed_s": 0.0001,
                "sync_probe_fraction": 0.15,
                "sync_probe_idle_fraction": 0.10,
            },
            "healthy",
        ),
        # Ready batches expose nothing, and competition for cores is not a sync.
        ({"load_s": 0.001, "step_s": 0.005, "train_s": 0.0052, "exposed_s": 0.0001}, "healthy"),
        ({"train_s": 0.090, "exposed_s": 0.0, "sync_probe_fraction": 0.0}, "contention"),
        ({"device": EMULATED, "exposed_s": 0.0001}, "inconclusive"),
        ({"device": EMULATED}, "forced-sync"),
    ],
)
def test_what_a_sync_exposes_is_held_against_the_limit(changed: dict[str, Any], kind: str) -> None:
    """The interval must exceed the limit, and the loop itself must cause a sync."""
    assert judge(make_measurement(**{**COSTLY, **changed})).kind == kind


@pytest.mark.parametrize(
    ("exposed_s", "words"),
    [
        (0.0001, r" 100 us a step .* 0\.00 \(0\.00 to 0\.00\) of R$"),
        ((), "not measured$"),
    ],
)
def test_a_cheap_sync_has_its_figure(exposed_s: Any, words: str) -> None:
    """The remark has the measured cost of a sync, and says if it was not measured."""
    measurement = make_measurement(**{**COSTLY, "exposed_s": exposed_s, "shadow_s": 0.078})
    verdict = judge(measurement)
    (remark,) = find_remarks(measurement, verdict)
    assert (verdict.kind, remark.name) == ("contention", "forced-sync")
    assert re.search(words, remark.message)
