"""Tests of exact resume and of complete epochs."""

import re
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from itertools import cycle
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from netpipe.errors import InconclusiveError, MisuseError, PipelineElementsError
from netpipe.resuming.checking import Restored, ResumeReport, ResumeRequest
from netpipe.testing import expect_complete_epoch, expect_exact_resume
from tests.plugin.project import INI, Project, leave_xdist, line_with
from tests.resuming import resume_targets

EXACT = Restored(1, None, "", 30, 0.001, 0.5)
SKIPPED = Restored(6, None, "skipped: batch 7 came in place of batch 6", 30, 0.001, 0.5)
TEST = """
    from netpipe.testing import expect_exact_resume

    def test_resume(netpipe_resume):
        expect_exact_resume(netpipe_resume)

    def test_again(netpipe_resume):
        assert netpipe_resume.batches == 12
"""
CONSTANT = """
    import pytest
    from loaders import constant

    @pytest.fixture
    def netpipe_loader():
        return constant
"""


def test_an_exact_resume_passes() -> None:
    """An exact report passes."""
    expect_exact_resume(ResumeReport(12, True, "", [EXACT]))


def test_a_difference_fails() -> None:
    """The message has a line for each state."""
    with pytest.raises(
        PipelineElementsError, match=r"(?s)from batch 1 .*exact.*from batch 6 .*skipped"
    ):
        expect_exact_resume(ResumeReport(12, True, "", [EXACT, SKIPPED]))


@pytest.mark.parametrize("why", ["it gives other batches each time", ""])
def test_what_is_undecided_does_not_pass(why: str) -> None:
    """An undecided report and one without a restored state are inconclusive."""
    with pytest.raises(InconclusiveError, match=f"undecided: {why}"):
        expect_exact_resume(ResumeReport(12, True, why))


@pytest.mark.parametrize(
    ("state", "outcomes", "words"),
    [
        (EXACT, {"passed": 2}, ["2 passed"]),
        (SKIPPED, {"failed": 1, "passed": 1}, ["from batch 6 on: skipped: batch 7 came"]),
    ],
)
def test_tests_share_one_check(
    project: Project,
    state: Restored,
    outcomes: dict[str, int],
    words: list[str],
) -> None:
    """Two tests share one check, with the limits of the run."""
    requests: list[ResumeRequest] = []

    def check(command: Sequence[str], request: ResumeRequest, **_: object) -> ResumeReport:
        assert any("test_perf.py::test_resume" in word for word in command)
        requests.append(request)
        return ResumeReport(12, True, "", [state])

    project.uses(check_resume=check)
    project.has(TEST)
    result = project.compare("--netpipe-start-limit", "7")
    result.assert_outcomes(**outcomes)
    line_with(result, *words)
    assert [request.start_limit_s for request in requests] == [7.0]
    result.stdout.no_fnmatch_line("nothing was measured*")


def test_a_session_runs_the_loader_of_the_fixture(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fixture's loader is run: its equal batches leave the resume undecided."""
    leave_xdist(monkeypatch)
    pytester.makeini(INI)
    pytester.makepyfile(loaders=Path(resume_targets.__file__).read_text(encoding="utf-8"))
    pytester.makeconftest(CONSTANT)
    pytester.makepyfile(test_perf=TEST)
    result = pytester.runpytest_subprocess("-k", "test_resume", "--netpipe-inconclusive=fail")
    result.assert_outcomes(failed=1, deselected=1)
    line_with(result, "undecided", "all are equal")


def shard(*numbers: int) -> list[dict[str, np.ndarray]]:
    """Return batches of two rows with these numbers."""
    pairs = zip(numbers[::2], numbers[1::2], strict=True)
    return [{"id": np.array(pair), "row": np.outer(pair, [1, 1])} for pair in pairs]


def test_a_complete_epoch() -> None:
    """Each element is on one shard, and all shards have the same number of batches."""
    expect_complete_epoch([shard(0, 3, 1, 4), shard(2, 5, 6, 7)], 8)
    expect_complete_epoch(iter([iter(shard(0, 1))]), 2)


@pytest.mark.parametrize(
    ("restored", "found"),
    [
        ([shard(4, 5), shard(6, 7), shard(8, 9)], None),
        ([shard(4, 5), shard(6, 7), shard(2, 9)], "found 9 and 1 repetitions"),
        ([shard(4, 5), shard(6, 7)], "found 8 and 0 repetitions"),
    ],
    ids=["complete", "repeated", "lost"],
)
def test_two_shards_become_others(
    restored: list[list[dict[str, np.ndarray]]], found: str | None
) -> None:
    """Batches from before the restart count, from any number of shards."""
    before = [*shard(0, 1), *shard(2, 3)]
    with pytest.raises(PipelineElementsError, match=found) if found else nullcontext():
        expect_complete_epoch(restored, 10, before=before)


@pytest.mark.parametrize(
    ("shards", "found"),
    [
        ([shard(0, 1), shard(2, 2)], "found 3 and 1 repetitions"),
        ([shard(0, 1), shard(2, 1)], "found 3 and 1 repetitions"),
        ([shard(0, 1)], "found 2 and 0 repetitions"),
        ([shard(0, 1, 2, 3), []], "found 4 and 0 repetitions, .* and 2, 0 batches"),
        ([shard(0, 1, 2, 3, 4, 5)], "found 6 and 0 repetitions"),
        ([], "found 0 and 0 repetitions"),
    ],
)
def test_an_incomplete_epoch(shards: list[list[dict[str, np.ndarray]]], found: str) -> None:
    """A missing, repeated or unknown element fails, and so do shards of different lengths."""
    with pytest.raises(PipelineElementsError, match=found):
        expect_complete_epoch(shards, 4)


def test_an_endless_shard_fails() -> None:
    """A loader that repeats is not read forever."""
    with pytest.raises(PipelineElementsError, match="found 4 and 4 repetitions"):
        expect_complete_epoch([cycle(shard(0, 1, 2, 3)), shard(2, 3)], 5)


def test_elements_have_names() -> None:
    """Elements are told apart by their names if a key is given."""
    same = [{"id": np.array([1, 2, 0]), "row": np.ones((3, 2))}]

    def name(batch: dict[str, np.ndarray]) -> list[int]:
        return [number for number in batch["id"].tolist() if number]

    expect_complete_epoch([same], 2, key=name)
    with pytest.raises(PipelineElementsError, match="found 2 and 2 repetitions"):
        expect_complete_epoch([same, same], 2, key=name)


@pytest.mark.parametrize(
    ("batch", "found"),
    [
        ({"id": np.arange(2), "step": 3}, "[(), (2,)]"),
        ({"id": np.arange(2), "step": np.array(3)}, "[(), (2,)]"),
        ({"id": np.arange(2), "row": np.ones((3, 2))}, "[(2,), (3,)]"),
        ({"id": np.arange(2), "text": "ab"}, "[(), (2,)]"),
        ({"id": [1, 2]}, "[()]"),
        ({}, "none"),
        (3, "[()]"),
    ],
)
def test_rows_that_cannot_be_told_apart_are_a_misuse(batch: object, found: str) -> None:
    """The error has the lengths of the batch's arrays, and asks for a key."""
    with pytest.raises(MisuseError, match=f"key must.*found {re.escape(found)}$"):
        expect_complete_epoch([[batch]], 2)


class Number:
    """A number of an array library, whose hash says nothing about its value."""

    def __init__(self, value: int) -> None:
        self._value = value

    def tolist(self) -> int:
        """Return the value as a Python number."""
        return self._value


def test_numbers_of_array_libraries_are_names() -> None:
    """Equal numbers name one element although they are different objects."""
    expect_complete_epoch([shard(0, 1)], 2, key=lambda batch: jnp.array(batch["id"]))
    with pytest.raises(PipelineElementsError, match="found 1 and 1 repetitions"):
        expect_complete_epoch([shard(0, 0)], 2, key=lambda batch: map(Number, batch["id"]))


@pytest.mark.parametrize("shards", [[], [[]], [[], []]])
def test_an_epoch_without_elements_is_a_misuse(shards: list[list[object]]) -> None:
    """An expectation that no loader can miss proves nothing."""
    with pytest.raises(MisuseError, match="elements must be at least 1; found 0"):
        expect_complete_epoch(shards, 0)


@pytest.mark.parametrize("key", [lambda _: 3, lambda _: [[1, 2]]], ids=["number", "rows"])
def test_a_key_that_names_no_rows_is_a_misuse(key: Callable[[Any], Any]) -> None:
    """A key must return one hashable name for each row."""
    with pytest.raises(MisuseError, match="key must return one hashable name"):
        expect_complete_epoch([[{"id": np.arange(2)}]], elements=2, key=key)


def test_no_shard_is_not_an_epoch() -> None:
    """Batches from before a restart do not stand in for restored shards."""
    with pytest.raises(PipelineElementsError, match="and no batches"):
        expect_complete_epoch([], 2, before=shard(0, 1))
