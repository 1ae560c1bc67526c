"""Several processes of a training, judged together."""

from dataclasses import replace
from typing import Any

import pytest

from netpipe.watching.processes import Process, judge_together, pool, summarize, summarize_recent
from netpipe.watching.window import Judged, Waits, sampled_fraction
from tests.watching.windows import make_figures, make_window


def processes(*idle: float | None) -> list[Process]:
    """Return processes whose devices are idle for these fractions of the time."""
    hosts = [(f"node-{number}", each) for number, each in enumerate(idle)]
    return [summarize(f"run-{host}", [make_window(idle=each, host=host)]) for host, each in hosts]


@pytest.mark.parametrize(
    ("idle", "kind", "message"),
    [
        ((0.0, 0.01), "healthy", "node-1 (run-node-1): the device is idle while"),
        ((0.0, 0.4, 0.0), "loader-bound", "node-1 (run-node-1) makes the others wait: the device"),
        ((0.2, 0.8, 0.0), "loader-bound", "node-1 (run-node-1) makes the others wait: the device"),
        ((0.4, 0.0, 0.45), "loader-bound", "node-0 (run-node-0), node-2 (run-node-2) make the "),
        ((0.4, 0.45), "loader-bound", "all 2 processes wait for their data; node-1 (run-node-1): "),
        ((0.0, 0.06), "inconclusive", "node-1 (run-node-1): the device is idle while"),
        ((0.4, None), "loader-bound", "node-0 (run-node-0) makes the others wait"),
        ((None, None), "inconclusive", "node-0 (run-node-0): the loop waits for batches 40.0%"),
        ((0.4,), "loader-bound", "the device is idle while"),
    ],
)
def test_the_process_that_others_wait_for_is_named(
    idle: tuple[float | None, ...], kind: str, message: str
) -> None:
    """Those that wait in the step are not; those that cannot be told apart are all named."""
    judged = judge_together(processes(*idle))
    assert judged.kind == kind
    assert judged.message.startswith(message)


def test_a_shared_cause_has_its_own_advice() -> None:
    """If all wait, what they share may be slow."""
    assert "the cause may be shared" in judge_together(processes(0.4, 0.45)).next


def test_a_process_without_any_batch_is_named() -> None:
    """A loader that hangs exposes nothing that could be sampled before its first step."""
    hangs = make_figures(
        batches=0, wait_s=None, step_s=None, waiting_fraction=1.0, exposed_fraction=None
    )
    hanging = summarize("run-1", [make_window(1, host="node-1", figures=hangs)])
    judged = judge_together([*processes(0.0), hanging])
    assert judged.message.startswith("node-1 (run-1) makes the others wait: no batch came within")


def test_the_last_windows_count_and_the_worst_process_is_first() -> None:
    """A verdict follows a change within two windows."""
    slower = [*(make_window(number, 0.0) for number in range(9)), make_window(9), make_window(10)]
    found = summarize_recent({"a": [make_window(0, 0.0)], "b": slower})
    assert [each.name for each in found] == ["b", "a"]
    assert [each.judged.kind for each in found] == ["loader-bound", "healthy"]


def test_windows_are_pooled() -> None:
    """Samples add up, and fractions are weighted by the time or the batches that they belong to."""
    first = make_figures(
        batches=300, waiting_fraction=0.2, synced_fraction=1.0, step_s=0.03, compilations=2,
        exposed_fraction=sampled_fraction(10, 100), worst_tenth_fraction=0.8,
    )  # fmt: skip
    second = make_figures(
        seconds=30.0,
        batches=100,
        waiting_fraction=0.6,
        step_s=0.3,
        wait_s=Waits(0.04, 0.055, 0.5),
        exposed_fraction=sampled_fraction(90, 100),
    )
    pooled = pool([first, second])
    assert (pooled.seconds, pooled.batches, pooled.compilations) == (40.0, 400, 2)
    assert pooled.waiting_fraction == pytest.approx(0.5)
    assert pooled.exposed_fraction == sampled_fraction(100, 200)
    assert pooled.synced_fraction == pytest.approx(0.75)
    assert pooled.worst_tenth_fraction == pytest.approx((2 * 0.8 + 18 * 0.12) / 20)
    assert pooled.wait_s == Waits(0.03, 0.04, 0.5)
    assert pooled.step_s == pytest.approx(0.165)


@pytest.mark.parametrize("given", [{}, {"batches": 0, "wait_s": None, "step_s": None}])
def test_one_window_stays_as_it_is(given: dict[str, Any]) -> None:
    """Pooling alone changes no verdict."""
    figures = make_figures(waiting_fraction=0.0, **given, exposed_fraction=None)
    assert pool([figures]) == replace(figures, worst_tenth_fraction=0.0, own_work_fraction=0.0)
    assert pool([make_figures()]) == make_figures()


def test_a_process_without_new_lines_is_silent() -> None:
    """Three windows must be missing."""
    (found,) = processes(0.0)
    assert [found.is_silent(found.latest.ended_s + age) for age in (29.0, 31.0)] == [False, True]
    assert isinstance(found.judged, Judged)
