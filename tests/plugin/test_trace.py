"""--netpipe-trace DIR keeps a trace of each measurement."""

from dataclasses import replace

import pytest

from tests.plugin.project import Project, line_with
from tests.plugin.recorded import recorded


def test_every_measurement_is_asked_for_its_trace(project: Project) -> None:
    """Each trace is named after the first test of its measurement."""
    project.has("def test_a(netpipe_measurement): pass\ndef test_b(netpipe_measurement): pass")
    project.run("--netpipe-trace", "traces")
    folder = project.pytester.path / "traces"
    assert folder.is_dir()
    assert [(request.trace, request.trace_name) for request in project.requests] == [
        (str(folder), "test_perf.py::test_a")
    ]


def test_the_trace_is_listed(project: Project) -> None:
    """The summary has its path."""
    project.has("def test_a(netpipe_measurement): pass")
    project.sessions = [replace(recorded(), trace="/traces/cpu_test-a.trace.json.gz")]
    result = project.run("--netpipe-trace", "traces")
    line_with(result, "trace: /traces/cpu_test-a.trace.json.gz")


def test_a_folder_that_cannot_be_written_to_is_a_usage_error(project: Project) -> None:
    """The run ends before anything is measured."""
    project.has("def test_a(netpipe_measurement): pass")
    (project.pytester.path / "traces").touch()
    result = project.run("--netpipe-trace", "traces")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    line_with(result, "traces: --netpipe-trace", "folder")
    assert project.requests == []
