"""Benchmarks that cannot run: the run fails and says why, it never passes."""

import pytest

from tests.suite.project import Project

DISABLED = "benchmarks are disabled (--benchmark-disable): nothing was measured*"


def test_a_disabled_benchmark_fails(project: Project) -> None:
    """Where pytest-benchmark measures nothing, the benchmark fails and says what to run."""
    result = project.compare("--benchmark-disable")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([DISABLED])


def test_a_run_that_measured_nothing_fails(project: Project) -> None:
    """When every timed test was skipped, the comparison fails: there was none."""
    result = project.compare("--benchmark-skip")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["nothing was measured*"])


def test_looking_is_no_failure(project: Project) -> None:
    """A run that was only to list its tests is not blamed for measuring nothing."""
    result = project.compare("--collect-only")
    assert result.ret == pytest.ExitCode.OK


def test_a_test_that_puts_nothing_fails(project: Project) -> None:
    """A test that asks for the benchmark and benchmarks nothing has failed."""
    project.has("def test_load_time(netpipe_benchmark): pass")
    result = project.compare()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*asked for netpipe_benchmark and benchmarked nothing"])


def test_an_unknown_quantity_is_named(project: Project) -> None:
    """A quantity that is none of those measured is refused with those that are."""
    project.has("def test_load_time(netpipe_benchmark): netpipe_benchmark('speed')")
    result = project.compare()
    result.stdout.fnmatch_lines(
        ["*takes one of load_s_per_batch, step_s, train_s_per_step; found 'speed'"]
    )
    assert result.ret == pytest.ExitCode.TESTS_FAILED
