"""A damaged baseline: named before anything is measured."""

import pytest

from tests.plugin.project import LOAD_TIME, Project, line_with


@pytest.fixture
def damaged(project: Project) -> Project:
    """A project whose baseline was cut off in the middle."""
    project.record()
    path = project.pytester.path / "baselines" / "cpu-testing-4" / "0001_first.json"
    path.write_text(path.read_text()[:500])
    return project


def test_two_of_one_number_are_a_usage_error(project: Project) -> None:
    """Two baselines of one number, as two branches make them, are named both."""
    project.record()
    folder = project.pytester.path / "baselines" / "cpu-testing-4"
    (folder / "0001_other.json").write_text((folder / "0001_first.json").read_text())
    result = project.compare()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    line_with(result, "ERROR", "0001_first.json", "0001_other.json")


def test_a_damaged_baseline_of_another_device_is_no_matter(damaged: Project) -> None:
    """Only the baseline of the device that is here is read."""
    damaged.pytester.path.joinpath("baselines", "cpu-testing-4").rename(
        damaged.pytester.path / "baselines" / "h200-x1"
    )
    damaged.has(LOAD_TIME)
    assert damaged.compare().ret == pytest.ExitCode.OK
