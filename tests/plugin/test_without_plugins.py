"""Performance tests with other plugins disabled, or in a run that only lists tests."""

import pytest

from tests.plugin.project import NO_STALL, Project, line_with

OTHERS = ("cacheprovider", "terminal", "junitxml", "xdist", "logging", "capture", "doctest")


@pytest.mark.parametrize("name", [*OTHERS, " -p no:".join(OTHERS)])
def test_a_benchmark_needs_no_other_plugin(project: Project, name: str) -> None:
    """A benchmark is measured without any one of these plugins, and without all of them."""
    result = project.run(*f"-p no:{name}".split(), "--netpipe-json=run.json")
    assert result.ret == pytest.ExitCode.OK
    assert project.read_json("run.json")["measurements"]
    assert "INTERNALERROR" not in str(result.outlines)


@pytest.mark.parametrize("flags", ["", "-n1"])
def test_a_benchmark_needs_pytest_benchmark(project: Project, flags: str) -> None:
    """Without it, one line names the plugin, the test and the way out."""
    project.pytester.makeconftest("")  # The project's own has hooks of that plugin.
    result = project.run("-p", "no:benchmark", *flags.split())
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    line_with(result, "ERROR: test_perf.py::test_load_time", "pytest-benchmark", "-p no:benchmark")
    assert not project.requests


@pytest.mark.parametrize("flags", ["", "-n1"])
def test_a_measurement_needs_no_pytest_benchmark(project: Project, flags: str) -> None:
    """A test that measures and benchmarks nothing runs without that plugin."""
    project.has(NO_STALL)
    project.pytester.makeconftest("")  # The project's own has hooks of that plugin.
    result = project.run("-p", "no:benchmark", *flags.split())
    result.assert_outcomes(passed=1)
    assert result.ret == pytest.ExitCode.OK


@pytest.mark.parametrize("flag", ["--fixtures", "--fixtures-per-test", "--co", "--markers"])
def test_listing_writes_and_says_nothing(project: Project, flag: str) -> None:
    """A run that lists tests or fixtures writes no file and no summary of netpipe."""
    result = project.compare(flag, "--netpipe-json=run.json")
    assert result.ret == pytest.ExitCode.OK
    assert not (project.pytester.path / "run.json").exists()
    result.stdout.no_fnmatch_line("*netpipe: *")
    result.stdout.no_fnmatch_line("*netpipe ===*")


@pytest.mark.parametrize(
    ("conftest", "code"),
    [
        ("def pytest_sessionstart(): raise ValueError('no session')", 3),
        ("def pytest_collection_modifyitems(): raise KeyboardInterrupt", 2),
        ("import nothing_of_this_name", 4),
    ],
)
def test_a_run_that_cannot_start_ends_as_usual(project: Project, conftest: str, code: int) -> None:
    """The exit code of a failing conftest is pytest's own."""
    project.has(conftest, "conftest")
    flags = ("--benchmark-compare", "--netpipe-json=run.json", "--netpipe-missing=fail")
    result = project.pytester.runpytest_inprocess(*flags, no_reraise_ctrlc=True)
    assert result.ret == code
    assert "netpipe/" not in str(result.outlines + result.errlines)


def test_a_test_may_request_a_fixture_by_name(project: Project) -> None:
    """A fixture requested in the middle of a test activates netpipe."""
    project.has("def test_late(request): request.getfixturevalue('netpipe_measurement')")
    result = project.run()
    result.assert_outcomes(passed=1)
    assert len(project.requests) == 1


@pytest.mark.parametrize(
    "late",
    ["request.getfixturevalue('netpipe_benchmark')('step_s')",
     "request.getfixturevalue('netpipe_work').compare()"],
)  # fmt: skip
@pytest.mark.parametrize("flags", ["--benchmark-compare", "--netpipe-against=baseline"])
def test_a_fixture_requested_by_name_is_not_compared(
    project: Project, flags: str, late: str
) -> None:
    """The baselines and the other version are looked up before, so the test fails."""
    project.has(f"def test_late(request): {late}")
    result = project.run(*flags.split())
    result.assert_outcomes(failed=1)
    line_with(result, "must take netpipe_benchmark or netpipe_work as an argument")


@pytest.mark.parametrize("flags", ["", "-n1"])
def test_a_bad_table_of_the_project_is_a_usage_error(project: Project, flags: str) -> None:
    """A wrong table ends the run, with and without workers."""
    project.pytester.makepyprojecttoml("[tool.netpipe.lint]\nintent = 'speed'\n")
    result = project.run(*flags.split())
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    line_with(result, "ERROR: ", "pyproject.toml", "intent", "'speed'")


def test_an_output_of_pytest_on_a_full_disk_does_not_hide_the_verdict(project: Project) -> None:
    """A JUnit file that cannot be written fails the run, which still prints the verdict."""
    result = project.run("--junitxml=/dev/full")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    line_with(result, "an output of another plugin", "No space left")
    result.stdout.fnmatch_lines(["*why training waits*"])
