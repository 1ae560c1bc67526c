"""Sessions that fail."""

from collections.abc import Sequence

import pytest

from netpipe.errors import HangError
from netpipe.jobs.request import SessionRequest
from netpipe.results.measurement import Measurement
from tests.plugin.project import LOAD_TIME, NO_STALL, Project, line_with


def test_a_hanging_loader_is_waited_for_once(project: Project) -> None:
    """Each test of the subject fails with the reason, without a second session."""
    started: list[Sequence[str]] = []

    def hang(command: Sequence[str], request: SessionRequest, **_: object) -> Measurement:
        started.append(command)
        raise HangError(f"no batch for {request.batch_limit_s:g} s")

    project.uses(measure=hang)
    project.has(LOAD_TIME + NO_STALL)
    result = project.run()
    assert sum(result.parseoutcomes().get(word, 0) for word in ("failed", "errors")) == 2
    result.stdout.fnmatch_lines(["*no batch for 10 s*", "*no batch for 10 s*"])
    assert len(started) == 1


def test_a_limit_that_cannot_be_held_has_no_traceback(project: Project) -> None:
    """A fixture that refuses the marker fails the test in one line."""
    marked = "import pytest\n@pytest.mark.netpipe(headroom=-1)\n"
    project.has(f"{marked}def test_limits(netpipe_limits): pass")
    result = project.run()
    result.assert_outcomes(errors=1)
    line_with(result, "MisuseError", "headroom")
    result.stdout.no_fnmatch_line("*Traceback*")
    result.stdout.no_fnmatch_line("*testing.py:*")


@pytest.mark.parametrize(
    ("body", "outcomes"),
    [
        ('netpipe_benchmark("load_s_per_batch")', {"failed": 1}),
        ("assert not netpipe_benchmark", {"failed": 1}),
        ("import pytest; pytest.skip('not here')", {"skipped": 1}),
    ],
    ids=["measurement", "before-it", "skipped"],
)
def test_a_test_that_fails_has_one_outcome_where_warnings_are_errors(
    project: Project, body: str, outcomes: dict[str, int]
) -> None:
    """A test whose measurement failed, or that ended before it, has no error at teardown too."""
    project.fails(HangError("no batch"))
    project.has(f"def test_load_time(netpipe_benchmark): {body}")
    project.run("-W", "error:Benchmark fixture was not used").assert_outcomes(**outcomes)


def test_a_benchmark_that_failed_is_not_said_to_have_been_left_out(project: Project) -> None:
    """The summary allows for benchmarks that failed to be measured."""
    project.record()
    project.fails(HangError("no batch"))
    result = project.compare()
    line_with(result, "no benchmark was measured")
    result.stdout.no_fnmatch_line("*no benchmark ran*")
