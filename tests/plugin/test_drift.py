"""Drift: small steps since the oldest comparable baseline."""

import re
from dataclasses import replace

import pytest

from tests.plugin.project import Project, line_with
from tests.plugin.recorded import recorded


def has_note(result: pytest.RunResult) -> bool:
    """Return whether a line says that small steps of the ratio were not added up."""
    note = "small steps .*no earlier baseline.* load_cpu_ratio, "
    return any(re.match(note, line) for line in result.outlines)


def test_other_data_at_first_hide_no_drift(project: Project) -> None:
    """The second baseline is the oldest comparable one, so 12% since then fail."""
    project.record(replace(recorded(), fingerprint="other data"))
    project.record(recorded(load_cpu_ratio=2.0))
    project.record(recorded(load_cpu_ratio=2.2))
    project.sessions = [recorded(load_cpu_ratio=2.24)]
    result = project.compare("--netpipe-json=run.json")
    result.assert_outcomes(failed=1)
    line_with(result, "REGRESSED:", "load_cpu_ratio", "1.12 x", "0002_first.json")
    oldest = {comparison["oldest"] for comparison in project.read_json("run.json")["comparisons"]}
    assert oldest == {"cpu-testing-4/0002_first.json"}


@pytest.mark.parametrize("fingerprint", ["other data", ""])
def test_without_an_earlier_baseline_there_is_a_note(project: Project, fingerprint: str) -> None:
    """The note appears with earlier baselines of other data, and without any."""
    if fingerprint:
        project.record(replace(recorded(), fingerprint=fingerprint))
    project.record()
    result = project.compare("--netpipe-json=run.json")
    assert result.ret == pytest.ExitCode.OK
    assert has_note(result)
    comparisons = project.read_json("run.json")["comparisons"]
    assert {comparison["oldest"] for comparison in comparisons} == {None}
