"""An open question: skipped, or failed where that is asked for."""

import pytest

from tests.suite.project import NO_STALL, Project, line_with
from tests.suite.recorded import loader_bound, open_question, recorded

LOADS = (0.020, 0.009, 0.030, 0.009, 0.050)
REASON = "inconclusive: the loader's buffers"


@pytest.fixture
def unsure(project: Project) -> Project:
    """A project whose sessions leave open whether training waits."""
    project.has(NO_STALL)
    project.sessions = [open_question()]
    return project


def test_an_open_question_is_skipped(unsure: Project) -> None:
    """By default an inconclusive test is neither passed nor failed, and its reason is shown."""
    result = unsure.compare("-rs")
    assert result.ret == pytest.ExitCode.OK
    result.assert_outcomes(skipped=1)
    line_with(result, "SKIPPED", REASON)


def test_an_open_question_fails_where_asked(unsure: Project) -> None:
    """With --netpipe-inconclusive fail, an inconclusive test is a failed one."""
    result = unsure.compare("--netpipe-inconclusive", "fail")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(failed=1)
    line_with(result, REASON)


def test_a_second_session_may_answer_it(unsure: Project) -> None:
    """What the first session leaves open, a second one that can tell decides."""
    unsure.sessions = [open_question(), recorded()]
    result = unsure.compare()
    result.assert_outcomes(passed=1)
    line_with(result, "verdict-not-confirmed", "inconclusive", "healthy")


def test_an_inconclusive_comparison_is_skipped(project: Project) -> None:
    """Where five sessions contradict each other nobody knows: the benchmark is skipped."""
    project.record()
    project.sessions = [recorded(load_s=load_s) for load_s in LOADS]
    result = project.compare("-rs")
    result.assert_outcomes(skipped=1)
    line_with(
        result, "INCONCLUSIVE:", "load_s_per_batch", "2.00 x", "0001_first.json", "5 sessions"
    )
    assert len(project.requests) == 5


def test_an_inconclusive_comparison_fails_where_asked(project: Project) -> None:
    """With --netpipe-inconclusive fail, what could not be decided is a failed test."""
    project.record()
    project.sessions = [recorded(load_s=load_s) for load_s in LOADS]
    result = project.compare("--netpipe-inconclusive", "fail")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(failed=1)


def test_a_bad_verdict_is_confirmed_before_it_fails(project: Project) -> None:
    """A loader that is too slow in two sessions fails the test, with the verdict's own words."""
    project.has(NO_STALL)
    project.sessions = [loader_bound(), loader_bound()]
    result = project.run()
    result.assert_outcomes(failed=1)
    line_with(result, "loader-bound", "60 ms", "30 ms")
    line_with(result, "next: ")
    assert len(project.requests) == 2


def test_a_bad_verdict_may_have_been_the_machine(project: Project) -> None:
    """A loader that is too slow in the first session only has not failed."""
    project.has(NO_STALL)
    project.sessions = [loader_bound(), recorded()]
    project.run().assert_outcomes(passed=1)
