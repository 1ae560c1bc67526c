"""Recording a baseline: only after valid verdicts, and in a format that other tools read."""

import subprocess
import sys

import pytest

from netpipe.results.measurement import Device, Measurement
from tests.plugin.project import LOAD_TIME, Project, line_with
from tests.plugin.recorded import costly, loader_bound, recorded

UNKNOWN = Device("unknown-x1", "unknown", "unknown")
BENCHMARK = "test_perf.py::test_load_time"
EMULATED = """
    import pytest

    @pytest.mark.netpipe(accelerator="emulated:7ms")
    def test_emulated(netpipe_benchmark):
        netpipe_benchmark("load_s_per_batch")
"""
FAILING = """
    def test_failing():
        raise ValueError("not today")
"""


SKIPPING = """
    def test_skipping(netpipe_benchmark):
        from netpipe.errors import InconclusiveError

        netpipe_benchmark("load_s_per_batch")
        raise InconclusiveError("the interval includes the limit")
"""


def test_a_skipped_benchmark_is_not_recorded(project: Project) -> None:
    """Its figures may be beyond the limits of its test."""
    project.has(SKIPPING)
    result = project.run("--netpipe-record", "first", "--netpipe-sessions", "1")
    line_with(result, "not recorded", "test_skipping", "it was skipped")
    assert result.ret
    assert not project.baselines


def test_a_baseline_has_the_next_number(project: Project) -> None:
    """A second recording gets the next number."""
    project.record()
    project.run("--netpipe-record", "second", "--netpipe-sessions", "1")
    assert project.baselines == [
        "cpu-testing-4/0001_first.json",
        "cpu-testing-4/0002_second.json",
    ]


def test_a_recording_is_not_compared(project: Project) -> None:
    """A slower run is recorded too."""
    project.record()
    project.sessions = [costly()]
    result = project.compare("--netpipe-record", "slower", "--netpipe-sessions", "1")
    result.assert_outcomes(passed=1)
    assert "cpu-testing-4/0002_slower.json" in project.baselines


def test_a_baseline_holds_one_median_for_each_session(project: Project) -> None:
    """The requested number of sessions is run, and `stats.data` has the median of each."""
    project.sessions = [recorded(load_s=0.009), recorded(load_s=0.010), recorded(load_s=0.012)]
    project.run("--netpipe-record", "first", "--netpipe-sessions", "3")
    document = project.read_json("baselines/cpu-testing-4/0001_first.json")
    (benchmark,) = document["benchmarks"]
    assert benchmark["fullname"] == "test_perf.py::test_load_time"
    assert benchmark["stats"]["data"] == pytest.approx([0.009, 0.010, 0.012])
    assert document["netpipe"]["schema"] == "netpipe.baseline/1"
    assert document["netpipe"]["benchmarks"]["test_perf.py::test_load_time"] == [0, 1, 2]
    assert len(project.requests) == 3


@pytest.mark.parametrize("command", ["list", "compare"])
def test_other_tools_read_a_baseline(project: Project, command: str) -> None:
    """pytest-benchmark's own command line lists a baseline and shows its benchmarks."""
    project.record()
    tool = [sys.executable, "-m", "pytest_benchmark", "--storage=baselines", command]
    answer = subprocess.run(
        tool, cwd=project.pytester.path, check=True, capture_output=True, text=True
    ).stdout
    assert {"list": "0001_first.json", "compare": "test_load_time"}[command] in answer


@pytest.mark.parametrize(
    ("text", "sessions", "reason"),
    [
        (LOAD_TIME + "        assert 0", [recorded()], f"{BENCHMARK}: it failed; do what"),
        (LOAD_TIME, [recorded(), loader_bound()], "cpu-testing-4 was loader-bound"),
        ("def test_measured(netpipe_measurement): pass", [recorded()], "no benchmark"),
        (LOAD_TIME, [recorded(device=UNKNOWN)], "the step must name its device"),
    ],
    ids=["failing benchmark", "unhealthy verdict", "no benchmark", "unknown device"],
)
def test_a_run_that_cannot_be_a_baseline_records_nothing(
    project: Project, text: str, sessions: list[Measurement], reason: str
) -> None:
    """No file is written, the run fails, and the summary says why."""
    project.has(text)
    project.sessions = sessions
    result = project.run("--netpipe-record", "first", "--netpipe-sessions", str(len(sessions)))
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    line_with(result, "recorded: ", reason)
    assert project.baselines == []


@pytest.mark.parametrize(
    ("text", "left_out"),
    [
        (FAILING, ""),
        (FAILING.replace("()", "(netpipe_lint)"), "test_failing: it failed; do what its message"),
        (EMULATED, "test_emulated: a session on cpu-testing-4 was loader-bound: loading a batch"),
    ],
    ids=["another test", "an expectation", "another verdict"],
)
def test_what_is_valid_is_recorded_without_the_rest(
    project: Project, text: str, left_out: str
) -> None:
    """Benchmarks that passed are recorded; the run fails, and names the rest with a way out."""
    project.has(LOAD_TIME + text)
    project.sessions = [recorded(), loader_bound()]
    result = project.run("--netpipe-record", "first", "--netpipe-sessions", "1")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    line_with(result, "recorded ", "0001_first.json", "commit this unchanged")
    document = project.read_json("baselines/cpu-testing-4/0001_first.json")
    assert [each["fullname"] for each in document["benchmarks"]] == [BENCHMARK]
    assert [*document["netpipe"]["benchmarks"]] == [BENCHMARK]
    if left_out:
        line_with(result, f"not recorded: test_perf.py::{left_out}")


def test_without_reports_a_failed_run_records_nothing(project: Project) -> None:
    """Without pytest's terminal reporter, it is not known which tests failed."""
    project.has(LOAD_TIME + FAILING)
    project.run("--netpipe-record", "first", "--netpipe-sessions", "1", "-p", "no:terminal")
    assert project.baselines == []


def test_an_interrupted_recording_says_so(project: Project) -> None:
    """The reason is the interruption, not a failed test."""

    def interrupted(*_: object, **__: object) -> None:
        pytest.exit("enough")

    project.uses(measure=interrupted)
    result = project.run("--netpipe-record", "first")
    line_with(result, "no baseline was recorded: the run was interrupted")
