"""The project that the tests of the plugin run in this process."""

import jax  # noqa: F401  # It can be imported only once, and a run in this process forgets its imports.
import pytest
import scipy.stats  # noqa: F401  # It can be imported once only, too.

from tests.plugin.project import CONFTEST, INI, LOAD_TIME, Project, leave_xdist


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A project with one benchmark of the load time; every session of it is recorded."""
    leave_xdist(monkeypatch)
    pytester.makeini(INI)
    pytester.makeconftest(CONFTEST)
    project = Project(pytester)
    project.has(LOAD_TIME)
    return project
