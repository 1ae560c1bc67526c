"""Tests with the same fixtures share a measurement."""

import pytest

from tests.plugin.project import LOAD_TIME, NO_STALL, Project, line_with
from tests.plugin.recorded import costly, recorded

LOADER = """
    import pytest

    @pytest.fixture
    def netpipe_loader():
        raise AssertionError("the loader belongs to a session's process")
"""
IN_A_CLASS = """
    import pytest

    def test_outside(netpipe_measurement):
        pass

    class TestOther:
        @pytest.fixture
        def netpipe_loop(self):
            raise AssertionError("the loop belongs to a session's process")

        def test_inside(self, netpipe_measurement):
            pass

        def test_inside_too(self, netpipe_measurement):
            pass
"""


def test_the_same_fixtures_share_a_measurement(project: Project) -> None:
    """Tests of different files that see the same loader, step and loop are measured once."""
    project.has(LOAD_TIME + NO_STALL)
    project.has(NO_STALL, "test_other")
    project.run().assert_outcomes(passed=3)
    assert len(project.requests) == 1


def test_a_verdict_is_not_of_a_session_that_the_gate_added(project: Project) -> None:
    """Only the first one is measured again if its verdict is bad."""
    project.has(LOAD_TIME + LOAD_TIME.replace("test_load_time", "test_again") + NO_STALL)
    project.record()
    project.sessions = [costly(), recorded(load_s=0.06, train_s=0.06, load_cpu_ratio=3.0)]
    result = project.compare("--junitxml", "junit.xml")
    result.assert_outcomes(failed=2, passed=1)
    line_with(result, "cpu-testing-4", "healthy")
    written = (project.pytester.path / "junit.xml").read_text()
    assert written.count('name="netpipe_verdict" value="healthy"') == 3


def test_a_loader_of_a_module_is_measured_by_itself(project: Project) -> None:
    """A module that overrides the loader gets a measurement of its own."""
    project.has(LOADER + LOAD_TIME, "test_other")
    project.run().assert_outcomes(passed=2)
    assert [command[3].rpartition("/")[2] for command in project.commands] == [
        "test_other.py::test_load_time",
        "test_perf.py::test_load_time",
    ]


def test_a_loop_of_a_class_is_measured_by_itself(project: Project) -> None:
    """A class that overrides the loop gets a measurement of its own, shared within it."""
    project.has(IN_A_CLASS)
    project.run().assert_outcomes(passed=3)
    assert [command[3].rpartition("::")[2] for command in project.commands] == [
        "test_outside",
        "test_inside",
    ]


def test_an_order_is_read_once(project: Project) -> None:
    """Tests of the same loader share one lint."""
    project.has(
        """
    def test_one(netpipe_lint):
        assert netpipe_lint["findings"] == []

    def test_two(netpipe_lint):
        pass
"""
    )
    project.compare().assert_outcomes(passed=2)
    assert [request.kind for request in project.requests] == ["lint"]


NO_SELECTION = ("-m", "", "-k", "")


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (("-k", "load_time", "-v"), ("-m", "", "-kload_time")),
        (("-m", "not perf", "-v"), ("-mnot perf", "-k", "")),
        (("--junitxml", "junit.xml"), NO_SELECTION),
        (("--netpipe-record=first", "--netpipe-sessions", "1"), NO_SELECTION),
        (("--basetemp=scratch",), NO_SELECTION),
        (("--netpipe-budget", "5"), (*NO_SELECTION, "--netpipe-budget", "5")),
        (("-W", "ignore::UserWarning"), (*NO_SELECTION, "-W", "ignore::UserWarning")),
    ],
    ids=lambda words: " ".join(words) or "none",
)
def test_a_session_gets_the_flags_that_change_what_it_measures(
    project: Project, given: tuple[str, ...], kept: tuple[str, ...]
) -> None:
    """A session gets the flags that affect the measurement, and none of the run's own."""
    project.compare("test_perf.py", *given)
    (command,) = project.commands
    root = project.pytester.path
    own = [str(root / "test_perf.py::test_load_time"), f"--rootdir={root}"]
    own += ["-c", str(root / "tox.ini"), "-n0"]
    assert command[3:] == [*own, *kept]


DEPENDENT = """
    import pytest

    @pytest.fixture
    def netpipe_loader(delay_s):
        raise AssertionError("the loader belongs to a session's process")

    @pytest.fixture
    def delay_s():
        return 0.0
"""
OTHER_DELAY = """
    import pytest

    @pytest.fixture
    def delay_s():
        return 0.2
"""
QUANTITIES = """
    import pytest

    @pytest.mark.parametrize("quantity", ["load_s_per_batch", "step_s"])
    def test_time(netpipe_benchmark, quantity):
        netpipe_benchmark(quantity)
"""
DELAYS = """
    import pytest

    @pytest.mark.parametrize("delay_s", [0.1, 0.2])
    def test_measured(netpipe_measurement, delay_s):
        pass
"""


def test_what_a_loader_depends_on_tells_it_from_others(project: Project) -> None:
    """A module that overrides a fixture of the loader gets its own measurement."""
    project.pytester.makeconftest(DEPENDENT)
    project.has(OTHER_DELAY + NO_STALL, "test_other")
    project.run().assert_outcomes(passed=2)
    assert len(project.requests) == 2


def test_parameters_of_the_test_alone_share_a_measurement(project: Project) -> None:
    """A parameter that no fixture of the subject requests does not affect the measurement."""
    project.has(QUANTITIES)
    project.run().assert_outcomes(passed=2)
    assert len(project.requests) == 1


def test_parameters_of_the_loader_do_not(project: Project) -> None:
    """Each value of a parameter that the loader requests is measured."""
    project.pytester.makeconftest(DEPENDENT)
    project.has(DELAYS)
    project.run().assert_outcomes(passed=2)
    assert len(project.requests) == 2
