"""Several processes of a training, judged together."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from netpipe.watching.processes import (
    find_memory_growth,
    judge_together,
    merge,
    merge_recent,
    merge_worse,
    sort_by_waiting,
)
from netpipe.watching.window import Waits, Window, sampled_fraction
from tests.watching.windows import make_figures, make_window


def processes(*idle: float | None) -> dict[str, Window]:
    """Return processes whose devices are idle for these fractions of the time."""
    made = (make_window(idle=each, host=f"node-{number}") for number, each in enumerate(idle))
    return sort_by_waiting({f"run-{each.host}": each for each in made})


@pytest.mark.parametrize(
    ("idle", "kind", "message"),
    [
        ((0.0, 0.01), "healthy", "node-1 (run-node-1): the device is idle while"),
        ((0.0, 0.4, 0.0), "loader-bound", "node-1 (run-node-1) makes the others wait: the device"),
        ((0.2, 0.8, 0.0), "loader-bound", "node-1 (run-node-1) makes the others wait: the device"),
        ((0.4, 0.0, 0.45), "loader-bound", "node-2 (run-node-2), node-0 (run-node-0) make the "),
        (
            (0.4, 0.45),
            "loader-bound",
            "all processes wait for their data: node-1 (run-node-1), node-0 (run-node-0): ",
        ),
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
    hanging = make_window(1, host="node-1", figures=hangs)
    judged = judge_together(sort_by_waiting({**processes(0.0), "run-1": hanging}))
    assert judged.message.startswith("node-1 (run-1) makes the others wait: no batch came within")


def test_a_run_that_waits_at_its_end_is_not_healthy() -> None:
    """A slow end does not disappear in a long log, and neither does a slow log with a good end."""
    healthy, waiting = (
        [make_window(number, idle=idle) for number in range(20)] for idle in (0.0, 0.4)
    )
    assert merge(healthy * 9 + waiting[:3]).verdict.kind == "healthy"
    for windows in (healthy * 9 + waiting[:3], waiting + healthy[:3]):
        assert merge_worse(windows).verdict.kind == "loader-bound"
    assert merge_worse(healthy).verdict.kind == "healthy"


def test_the_last_windows_count_and_the_worst_process_is_first() -> None:
    """A verdict follows a change within two windows."""
    slower = [*(make_window(number, 0.0) for number in range(9)), make_window(9), make_window(10)]
    found = merge_recent({"a": [make_window(0, 0.0)], "b": slower})
    assert {name: each.verdict.kind for name, each in found.items()} == {
        "b": "loader-bound", "a": "healthy",
    }  # fmt: skip
    assert next(iter(found)) == "b"
    assert found["b"].batches_before == 200 * 8


def test_windows_are_merged() -> None:
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
    merged = merge([make_window(figures=first), make_window(1, figures=second)]).figures
    assert (merged.seconds, merged.batches, merged.compilations) == (40.0, 400, 2)
    assert merged.waiting_fraction == pytest.approx(0.5)
    assert merged.exposed_fraction == sampled_fraction(100, 200)
    assert merged.synced_fraction == pytest.approx(0.75)
    assert merged.worst_tenth_fraction == pytest.approx((2 * 0.8 + 18 * 0.12) / 20)
    assert merged.wait_s == Waits(0.03, 0.04, 0.5)
    assert merged.step_s == pytest.approx(0.165)


@pytest.mark.parametrize("given", [{}, {"batches": 0, "wait_s": None, "step_s": None}])
def test_one_window_stays_as_it_is(given: dict[str, Any]) -> None:
    """Merging alone changes no verdict."""
    window = make_window(figures=make_figures(**given))
    assert merge([window]) == window


def test_many_processes_are_counted() -> None:
    """A few of them are named."""
    judged = judge_together(processes(0.0, *[0.4] * 9))
    assert judged.message.count("run-node") == 4
    assert " and 5 more make the others wait: " in judged.message


def test_a_process_without_new_lines_is_silent() -> None:
    """Three windows must be missing."""
    window = make_window()
    assert [window.is_silent(window.ended_s + age) for age in (29.0, 31.0)] == [False, True]


@pytest.mark.parametrize(
    ("held_mb", "growth_mb"),
    [
        (range(100, 120), 360.0),  # 1 MB in each window of 10 s
        ([100] * 20, 0.0),
        ([100, 120, 110, 130, 100, 125, 105, 128] * 2, 0.0),
        (range(100, 109), 0.0),  # too few to be sure
        ([*range(100, 110), *[110] * 10], 0.0),  # it has ended
        ([*[100] * 10, *[110] * 10], 0.0),  # in one step
        ([round(1000 - 900 * 0.9**number) for number in range(24)], 0.0),  # as buffers fill
    ],
)
def test_only_memory_that_keeps_growing_is_reported(
    held_mb: Sequence[int], growth_mb: float
) -> None:
    """The growth is per hour, by the times of the windows."""
    each = enumerate(held_mb)
    windows = [make_window(number, memory_bytes=held * 10**6) for number, held in each]
    assert find_memory_growth(windows) == pytest.approx(growth_mb * 1e6)


def test_the_memory_of_an_earlier_process_is_not_growth() -> None:
    """A run that goes on in the same log has another process, which may be larger."""
    windows = [make_window(number, memory_bytes=(100 + number) * 10**6) for number in range(20)]
    assert find_memory_growth(windows) > 0
    resumed = [replace(each, pid=8) for each in windows[11:]]
    assert find_memory_growth(windows[:11] + resumed) == 0
    assert find_memory_growth(windows[::-1]) == find_memory_growth(windows)
