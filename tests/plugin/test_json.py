"""Results for programs: --netpipe-json, and pytest-benchmark's own --benchmark-json."""

import pytest

from netpipe.gate.metrics import ONCE
from tests.plugin.project import Project, line_with
from tests.plugin.recorded import costly


def test_the_document_has_everything(project: Project) -> None:
    """--netpipe-json writes every session's measurement and verdict, and every comparison."""
    project.record()
    project.sessions = [costly()]
    project.compare("--netpipe-json", "run.json")
    document = project.read_json("run.json")
    assert document["schema"] == "netpipe.run/1"
    verdicts = [measurement["verdict"]["kind"] for measurement in document["measurements"]]
    assert verdicts == ["healthy", "healthy"]
    tests = [measurement["test"] for measurement in document["measurements"]]
    assert tests == ["test_perf.py::test_load_time"] * 2
    cost, time, *once = document["comparisons"]
    assert cost["benchmark"] == time["benchmark"] == "test_perf.py::test_load_time"
    assert (cost["outcome"], cost["metric"]) == ("REGRESSED", "load_cpu_ratio")
    assert (cost["now"], cost["baseline"]) == (3.0, 2.0)
    assert (time["outcome"], time["metric"]) == ("PASS", "load_s_per_batch")
    assert {each["outcome"] for each in once} == {"PASS"}
    assert [each["metric"] for each in once] == [metric.name for metric in ONCE]


def test_a_document_that_cannot_be_written_is_a_usage_error(project: Project) -> None:
    """The run ends before anything is measured."""
    result = project.run("--netpipe-json", "nowhere/run.json")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    line_with(result, "ERROR: nowhere/run.json", "--netpipe-json", "No such file")
    assert not project.requests


def test_a_document_that_can_no_longer_be_written_fails(project: Project) -> None:
    """The run fails with the name of the file, without a traceback."""
    (project.pytester.path / "results").mkdir()
    project.has("import os\ndef test_it(netpipe_benchmark): os.rmdir('results')")
    result = project.run("--netpipe-json", "results/run.json")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["*results/run.json*No such file*"])
    result.stdout.no_fnmatch_line("*INTERNALERROR*")


def test_benchmark_json_has_our_figures(project: Project) -> None:
    """--benchmark-json has a duration for each round, the verdict and the ratios."""
    project.run("--benchmark-json", "bench.json")
    (benchmark,) = project.read_json("bench.json")["benchmarks"]
    assert benchmark["stats"]["data"] == pytest.approx([0.010] * 10)
    assert benchmark["extra_info"]["verdict"] == "healthy"
    assert benchmark["extra_info"]["headroom"] == pytest.approx(3.0)
    assert benchmark["options"]["timer"] == "netpipe.session"
