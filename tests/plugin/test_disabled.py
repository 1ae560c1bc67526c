"""Benchmarks that cannot run fail the run."""

from dataclasses import replace

import pytest

from netpipe.gate import metrics
from tests.plugin.project import INI, LOAD_TIME, NO_STALL, Project, line_with

DISABLED = "benchmarks are disabled (--benchmark-disable): nothing was measured*"


def test_a_disabled_benchmark_fails(project: Project) -> None:
    """A disabled benchmark fails with the command to run instead."""
    result = project.compare("--benchmark-disable")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([DISABLED])


ORDER = "def test_order(netpipe_lint): assert netpipe_lint"


@pytest.mark.parametrize(
    "flags",
    [
        "--benchmark-skip",
        "-m 'not slow'",
        "-k 'order or stall'",
        "--deselect=test_perf.py::test_load_time",
        "-n1 --benchmark-skip",
        "-n1 -m 'not slow'",
        "--collect-only",
        "--setup-only",
    ],
)
def test_a_run_that_compared_nothing_fails(project: Project, flags: str) -> None:
    """Tests of other kinds do not replace the benchmarks that addopts deselected."""
    project.record()
    project.has(f"\n    import pytest\n    pytestmark = pytest.mark.slow\n{LOAD_TIME}")
    project.has(NO_STALL, "test_waits_stall")
    project.has(ORDER, "test_reads_order")
    project.pytester.makeini(f"{INI.rstrip()} {flags}\nmarkers = slow\n")
    result = project.compare()
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    line_with(result, "nothing was compared")


def test_last_failed_that_skips_the_benchmarks_fails(project: Project) -> None:
    """A file of benchmarks that --lf does not even collect is not compared either."""
    project.record()
    project.has("def test_order(netpipe_lint): assert False", "test_reads_order")
    project.compare()
    project.has(ORDER, "test_reads_order")
    assert project.compare("--lf").ret == pytest.ExitCode.TESTS_FAILED


@pytest.mark.parametrize("text", [NO_STALL, ORDER, "def test_plain(): pass"])
def test_a_project_without_benchmarks_has_nothing_to_compare(project: Project, text: str) -> None:
    """--benchmark-compare passes without benchmarks in the project and its baselines."""
    project.has(text)
    assert project.compare().ret == pytest.ExitCode.OK


@pytest.mark.parametrize("text", [NO_STALL, ORDER])
def test_a_chosen_file_without_benchmarks_has_nothing_to_compare(
    project: Project, text: str
) -> None:
    """With --netpipe-missing fail, a file without benchmarks passes."""
    project.record()
    project.has(text, "test_other")
    result = project.compare("test_other.py", "--netpipe-missing=fail")
    assert result.ret == pytest.ExitCode.OK


def test_a_deselected_comparison_with_the_baselines_commit_fails(project: Project) -> None:
    """The run was to compare with --netpipe-against baseline."""
    project.record()
    project.has(ORDER, "test_reads_order")
    result = project.run("--netpipe-against=baseline", "-k", "order")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    line_with(result, "nothing was compared")


def test_where_missing_fails_something_must_be_judged(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A metric that is reported only passes its test, and fails a run without any other."""
    reported = replace(metrics.STEP, is_judged_on_shared_cores=False)
    monkeypatch.setitem(metrics.GATED, "step_s", (reported,))
    project.has(LOAD_TIME.replace("load_s_per_batch", "step_s"), "test_step")
    project.record()
    result = project.compare("--netpipe-missing=fail")
    result.assert_outcomes(passed=2)
    assert result.ret == pytest.ExitCode.OK
    result = project.compare("--netpipe-missing=fail", "test_step.py")
    result.assert_outcomes(passed=1)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    line_with(result, "no time was judged")


def test_looking_is_no_failure(project: Project) -> None:
    """A run that lists its tests passes."""
    result = project.compare("--collect-only")
    assert result.ret == pytest.ExitCode.OK


def test_a_test_that_puts_nothing_fails(project: Project) -> None:
    """A test that requests the benchmark but benchmarks nothing fails."""
    project.has("def test_load_time(netpipe_benchmark): pass")
    result = project.compare()
    result.assert_outcomes(failed=1)
    line_with(result, "netpipe_benchmark", "benchmarked nothing")


def test_an_unknown_quantity_is_named(project: Project) -> None:
    """The message lists the quantities."""
    project.has("def test_load_time(netpipe_benchmark): netpipe_benchmark('speed')")
    result = project.compare()
    line_with(result, "load_s_per_batch", "step_s", "train_s_per_step", "'speed'")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
