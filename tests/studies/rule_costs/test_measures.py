"""Observations of pipelines whose answers are known."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from perf_tests.studies.rule_costs import measures
from perf_tests.studies.rule_costs.document import Block
from perf_tests.studies.rule_costs.examples import Example, Setting

SHARED = """
import grain
import numpy as np

def batch(*numbers):
    return {"a": np.repeat(np.array(numbers), 3).reshape(-1, 3)}
"""
SETTING = Setting(batch=2, rows=8)


def made(code: str) -> Example:
    """An example with this pipeline code."""
    return Example(Block("python", SHARED, 1), Block("python", code, 10))


def test_a_crash_is_told_with_the_batches_before_it() -> None:
    """The exception is named, with the first line of its message."""
    code = "def pipeline():\n    yield batch(1)\n    raise ValueError('no more.\\nbecause')\n"
    observed = measures.count_batches_before_crash(made(code), SETTING)
    assert observed.values == {"batches": 1}
    assert observed.error == "ValueError: no more"


@pytest.mark.parametrize(
    ("count", "batches", "found"),
    [
        (measures.count_delivered_elements, [(1, 2), (3,)], 3),
        (measures.count_neighbours, [(1, 2, 7, 10), (4, 3, 5, 0)], 2.5),
        # Four batches of two are an epoch of eight; duplicates count once.
        (measures.count_distinct_elements, [(0, 1), (1, 2), (2, 3), (4, 4), (5, 6)], 5),
        # Rows 0 to 3 and 4 to 7 are the halves.
        (measures.count_one_sided_batches, [(0, 3), (3, 4), (7, 5)], 2),
    ],
)
def test_contents_are_counted(
    count: measures.Measure, batches: list[tuple[int, ...]], found: float
) -> None:
    """Each measure counts the elements or batches that its name says."""
    code = f"def pipeline():\n    return [batch(*rows) for rows in {batches}]\n"
    assert [*count(made(code), SETTING).values.values()] == [found]


def test_batches_that_change_with_the_workers_are_counted() -> None:
    """Batches are compared position by position."""
    code = "def pipeline():\n    return [batch(1), batch(2, WORKERS.num_workers), batch(3)]\n"
    assert measures.count_worker_dependent_batches(made(code), SETTING).values == {"batches": 1}


def test_the_start_is_not_part_of_the_speed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time of the first batch is the start-up, and does not count in the speed."""
    now_s = [0.0]
    monkeypatch.setattr(measures, "time", SimpleNamespace(perf_counter=lambda: now_s[0]))

    def batches() -> Iterator[dict[str, Any]]:
        now_s[0] += 0.75
        while True:
            now_s[0] += 0.25
            yield {"a": np.zeros((4, 3))}

    example = cast("Example", SimpleNamespace(loader=lambda _: batches))
    values = measures.measure_speed(example, SETTING).values
    assert (values["elements_per_s"], values["first_batch_s"]) == (16, 1)
