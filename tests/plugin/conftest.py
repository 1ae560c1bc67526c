"""What the tests of the plugin share: a project that runs in this process."""

import jax  # noqa: F401  # a run within a run forgets what it imports; this can be once only
import pytest
import scipy.stats  # noqa: F401  # this too

import netpipe.plugin.run_plugin  # a run within a run forgets it too
import netpipe.plugin.session_plugin  # noqa: F401  # imported once only, as the run is
from netpipe.device import detection
from netpipe.jobs import parent
from netpipe.plugin import against
from netpipe.work_counts import counting
from tests.plugin.project import CONFTEST, INI, LOAD_TIME, Project, leave_xdist


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A project with one benchmark of the load time; every session of it is recorded."""
    project = Project(pytester)
    monkeypatch.setattr(parent, "run_measurement", project.measured)
    monkeypatch.setattr(parent, "run_session", project.linted)
    monkeypatch.setattr(against, "run_duet", project.dueted)
    monkeypatch.setattr(counting, "count_work", project.counted)
    monkeypatch.setattr(detection, "find_device", lambda: project.device)
    leave_xdist(monkeypatch)
    pytester.makeini(INI)
    pytester.makeconftest(CONFTEST)
    project.has(LOAD_TIME)
    return project
