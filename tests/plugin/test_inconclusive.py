"""Inconclusive results: the test is skipped, or fails if that is asked for."""

import re

import pytest

from tests.plugin.project import NO_STALL, Project, line_with
from tests.plugin.recorded import loader_bound, open_question, recorded

LOADS = (0.020, 0.009, 0.030, 0.009, 0.050)
REASON = "inconclusive: the loader's buffers"
POLICIES = pytest.mark.parametrize(
    ("policy", "outcome", "code"),
    [
        ("warn", "skipped", pytest.ExitCode.OK),
        ("fail", "failed", pytest.ExitCode.TESTS_FAILED),
    ],
)


@POLICIES
def test_an_inconclusive_verdict_is_skipped_or_fails(
    project: Project, policy: str, outcome: str, code: int
) -> None:
    """The reason of the skip is shown."""
    project.has(NO_STALL)
    project.sessions = [open_question()]
    result = project.compare("-rs", "--netpipe-inconclusive", policy)
    assert result.ret == code
    result.assert_outcomes(**{outcome: 1})
    # The verdict below it has a label before the reason.
    assert [line for line in result.outlines if re.match(f"(SKIPPED.*)?{REASON}", line)]


@POLICIES
def test_an_inconclusive_comparison_is_skipped_or_fails(
    project: Project, policy: str, outcome: str, code: int
) -> None:
    """Five sessions that contradict each other decide nothing."""
    project.record()
    project.sessions = [recorded(load_s=load_s) for load_s in LOADS]
    result = project.compare("-rs", "--netpipe-inconclusive", policy)
    assert result.ret == code
    result.assert_outcomes(**{outcome: 1})
    line_with(result, "INCONCLUSIVE:", "load_s_per_batch", "2.00 x", "5 sessions")
    assert len(project.requests) == 5


def test_a_bad_verdict_fails_with_its_message(project: Project) -> None:
    """The message says what to do next."""
    project.has(NO_STALL)
    project.sessions = [loader_bound(), loader_bound()]
    result = project.run()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["loader-bound: *60 ms*30 ms", "next: make loading*"])
