"""--netpipe-device."""

import re

import pytest

from tests.plugin.project import Project
from tests.plugin.recorded import H200


def test_the_wrong_device_is_a_usage_error(project: Project) -> None:
    """A run on another device ends at once, with one sentence that names both devices."""
    result = project.compare("--netpipe-device", "h200")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    (line,) = [line for line in result.errlines if line]
    assert re.match("ERROR: .* h200.* cpu-testing-4", line)
    assert not project.requests


@pytest.mark.parametrize("wanted", ["h200", "h200-x1"])
def test_the_right_device_is_measured(project: Project, wanted: str) -> None:
    """A device key and its family both match."""
    project.device = H200
    result = project.run("--netpipe-device", wanted)
    result.assert_outcomes(passed=1)


def test_no_device_is_looked_for_unless_needed(project: Project) -> None:
    """A run that neither compares nor asks for a device starts no process to find one."""
    project.uses(find_device=lambda: pytest.fail("looked"))
    project.run().assert_outcomes(passed=1)
