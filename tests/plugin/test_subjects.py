"""The loader, the step and the loop are made in the processes of sessions alone."""

import os

import pytest

from tests.plugin.project import LOAD_TIME, NO_STALL, Project, leave_xdist, line_with


def test_no_subject_is_made_here(project: Project) -> None:
    """The process that runs the tests never evaluates the loader, the step or the loop."""
    project.pytester.makeconftest(
        """
        import os
        import pytest

        def note(name):
            @pytest.fixture(name=name)
            def fixture():
                open(f"{os.getpid()} made {name}", "w").close()
            return fixture

        loader, step, loop, synthetic, fingerprint, flops = map(note, (
            "netpipe_loader", "netpipe_step", "netpipe_loop", "netpipe_synthetic",
            "netpipe_fingerprint", "netpipe_flops_per_step",
        ))
        """
    )
    project.has(LOAD_TIME + NO_STALL + "\n    def test_order(netpipe_lint): pass\n")
    project.compare().assert_outcomes(passed=3)
    assert project.requests
    assert not list(project.pytester.path.glob(f"{os.getpid()} made *"))


def test_a_missing_loader_is_asked_for(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a loader of the user's own, the failure says which fixture to write."""
    leave_xdist(monkeypatch)
    pytester.makepyfile(LOAD_TIME)
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    line_with(result, "netpipe_loader", "conftest.py")


def test_a_projects_own_plugin_overrides_fixtures(project: Project) -> None:
    """Overrides may lie in a module that a conftest names, as well as in the conftest."""
    project.pytester.makepyfile(
        fixtures_elsewhere="""
    import pytest

    @pytest.fixture
    def netpipe_fingerprint():
        return "mine"
"""
    )
    project.pytester.makeconftest('pytest_plugins = ["fixtures_elsewhere"]')
    project.has(
        """
    def test_it(netpipe_fingerprint):
        assert netpipe_fingerprint == "mine"
"""
    )
    project.run().assert_outcomes(passed=1)
