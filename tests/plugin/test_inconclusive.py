"""An open question: skipped, or failed where that is asked for."""

import re

import pytest

from tests.plugin.project import NO_STALL, Project, line_with
from tests.plugin.recorded import loader_bound, open_question, recorded

LOADS = (0.020, 0.009, 0.030, 0.009, 0.050)
REASON = "inconclusive: the loader's buffers"


@pytest.fixture
def unsure(project: Project) -> Project:
    """A project whose sessions leave open whether training waits."""
    project.has(NO_STALL)
    project.sessions = [open_question()]
    return project


POLICIES = pytest.mark.parametrize(
    ("policy", "outcome", "code"),
    [
        ("warn", "skipped", pytest.ExitCode.OK),
        ("fail", "failed", pytest.ExitCode.TESTS_FAILED),
    ],
)


@POLICIES
def test_an_open_question_is_skipped_or_fails(
    unsure: Project, policy: str, outcome: str, code: int
) -> None:
    """By default an inconclusive test is neither passed nor failed; its reason is shown."""
    result = unsure.compare("-rs", "--netpipe-inconclusive", policy)
    assert result.ret == code
    result.assert_outcomes(**{outcome: 1})
    # The verdict below it has a label before the reason.
    assert [line for line in result.outlines if re.match(f"(SKIPPED.*)?{REASON}", line)]


def test_a_second_session_may_answer_it(unsure: Project) -> None:
    """What the first session leaves open, a second one that can tell decides."""
    unsure.sessions = [open_question(), recorded()]
    result = unsure.compare()
    result.assert_outcomes(passed=1)
    line_with(result, "verdict-not-confirmed", "inconclusive", "healthy")


@POLICIES
def test_an_inconclusive_comparison_is_skipped_or_fails(
    project: Project, policy: str, outcome: str, code: int
) -> None:
    """Where five sessions contradict each other, the comparison decides nothing."""
    project.record()
    project.sessions = [recorded(load_s=load_s) for load_s in LOADS]
    result = project.compare("-rs", "--netpipe-inconclusive", policy)
    assert result.ret == code
    result.assert_outcomes(**{outcome: 1})
    line_with(result, "INCONCLUSIVE:", "load_s_per_batch", "2.00 x", "5 sessions")
    assert len(project.requests) == 5


def test_a_bad_verdict_is_confirmed_before_it_fails(project: Project) -> None:
    """A loader that is too slow in two sessions fails the test, with the verdict's own words."""
    project.has(NO_STALL)
    project.sessions = [loader_bound(), loader_bound()]
    result = project.run()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["loader-bound: *60 ms*30 ms", "next: make loading*"])
    assert len(project.requests) == 2


def test_a_bad_verdict_may_have_been_the_machine(project: Project) -> None:
    """A loader that is too slow in the first session only has not failed."""
    project.has(NO_STALL)
    project.sessions = [loader_bound(), recorded()]
    project.run().assert_outcomes(passed=1)
