"""With pytest-xdist, timed tests run alone after the workers."""

import pytest

from tests.plugin.project import INI, Project, line_with

WHERE = """
    import os

    def test_correctness():
        assert os.environ["PYTEST_XDIST_WORKER"].startswith("gw")
"""
TIMED_ALONE = """
    import os

    def test_load_time(netpipe_benchmark):
        assert "PYTEST_XDIST_WORKER" not in os.environ
        netpipe_benchmark("load_s_per_batch")
"""


@pytest.mark.parametrize("flags", [("-n1", "--dist=loadfile"), ("-n1", "--dist=each")])
def test_timed_tests_run_alone(project: Project, flags: tuple[str, ...]) -> None:
    """One run counts the tests of workers and the timed ones."""
    project.has(WHERE, "test_correct")
    project.has(TIMED_ALONE)
    result = project.run(*flags)
    assert result.ret == pytest.ExitCode.OK
    result.assert_outcomes(passed=2)
    assert len(project.requests) == 1


def test_nothing_timed_is_collected_once(project: Project) -> None:
    """Without a timed test, the run is pytest-xdist's alone."""
    project.has(WHERE, "test_perf")
    result = project.run("-n1")
    assert result.ret == pytest.ExitCode.OK
    result.assert_outcomes(passed=1)
    result.stdout.no_fnmatch_line("*netpipe*==*")


def test_what_was_not_chosen_is_not_run(project: Project) -> None:
    """`-k` applies to timed tests too."""
    project.has(WHERE, "test_correct")
    result = project.run("-n1", "-k", "correctness")
    assert result.ret == pytest.ExitCode.OK
    result.assert_outcomes(passed=1)
    assert not project.requests


def test_the_first_failure_ends_the_run(project: Project) -> None:
    """After `-x` and a failure in a worker, nothing is measured."""
    project.has("def test_wrong(): assert False", "test_correct")
    result = project.run("-n1", "-x")
    assert result.ret != pytest.ExitCode.OK
    result.assert_outcomes(failed=1)
    assert not project.requests


STRICT = (
    "filterwarnings =\n    default\n    error::pytest_benchmark.logger.PytestBenchmarkWarning\n"
)
TWO_TIMED = """
    import pytest

    @pytest.fixture(scope="module")
    def once():
        print("made once")

    def test_first(netpipe_measurement, once):
        assert FINE

    def test_second(netpipe_measurement, once):
        pass
"""


def test_the_first_timed_failure_ends_the_run(project: Project) -> None:
    """`-x` applies among the timed tests too."""
    project.has(TWO_TIMED.replace("FINE", "False"))
    result = project.run("-n1", "-x")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(failed=1)


def test_timed_tests_share_fixtures(project: Project) -> None:
    """A fixture of a module is made once for all of its timed tests, and all are counted."""
    project.has(WHERE, "test_correct")
    project.has(TWO_TIMED.replace("FINE", "True"))
    result = project.run("-n1", "-s")
    assert result.ret == pytest.ExitCode.OK
    result.assert_outcomes(passed=3)
    assert result.stdout.str().count("made once") == 1


def test_no_warning_comes_of_workers(project: Project) -> None:
    """pytest-benchmark does not warn about workers."""
    project.pytester.makeini(INI.replace("filterwarnings = default\n", STRICT))
    result = project.compare("-n1")
    assert result.ret == pytest.ExitCode.OK
    result.assert_outcomes(passed=1)
    assert "Can't compare" not in result.stderr.str()


def test_a_file_that_cannot_be_imported_is_reported_once(project: Project) -> None:
    """The error of a broken file appears once."""
    project.has("import absent", "test_broken")
    result = project.run("-n1", "--continue-on-collection-errors")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(passed=1, errors=1)


def test_timed_and_inconclusive_tests_in_a_worker(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A test that requests a timed fixture fails with the remedy; an inconclusive one skips."""
    monkeypatch.setenv("COLUMNS", "300")  # Outside CI, pytest cuts the lines of its summary.
    project.has("""
        import pytest
        from netpipe.errors import InconclusiveError

        @pytest.mark.parametrize("name", ["netpipe_measurement", "netpipe_lint"])
        def test_hidden(request, name):
            request.getfixturevalue(name)

        def test_stored():
            raise InconclusiveError("undecided")
    """)
    result = project.compare("-n1")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(failed=2, skipped=1)
    for name in ("netpipe_measurement", "netpipe_lint"):
        line_with(result, f"test_hidden[{name}]", "timed test", "as arguments", "-n0")
