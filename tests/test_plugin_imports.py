"""The entry points import nothing heavy, and pytest's process starts no device."""

import subprocess
import sys

import pytest

from tests.plugin.project import leave_xdist

CONFTEST = """
    import itertools
    import sys

    import numpy as np
    import pytest
    from netpipe.verdict.kinds import Verdict

    Verdict.passes = lambda *_: True  # The verdict does not matter here: measure once.

    @pytest.fixture
    def netpipe_loader():
        return lambda: (np.full((4, 8), n, np.int32) for n in itertools.count())

    def pytest_unconfigure():
        bridge = sys.modules.get("jax._src.xla_bridge")
        started = bridge is not None and bridge.backends_are_initialized()
        print("jax backend started:", started)
"""
MEASURED = """
    import pytest

    @pytest.mark.netpipe(accelerator="emulated:2ms")
    def test_measured(netpipe_measurement, netpipe_lint):
        assert netpipe_measurement.device.key == "emulated-2ms"
        assert netpipe_measurement.step_s.median > 0.0016
        assert netpipe_measurement.load_s_per_batch.n >= 1
"""


@pytest.fixture
def perf_run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A project with a performance test, to be run in a process of its own."""
    leave_xdist(monkeypatch)
    pytester.makeini("[pytest]\nnetpipe_budget = 0.5\naddopts = -p no:hypothesispytest\n")
    pytester.makeconftest(CONFTEST)
    return pytester


@pytest.mark.parametrize("module", ["netpipe.pytest_plugin", "netpipe.cli"])
def test_importing_an_entry_point_is_light(module: str) -> None:
    """Every pytest run loads the plugin, and every command the command line: nothing heavy."""
    heavy = {"jax", "jaxlib", "grain", "numpy", "matplotlib", "cattrs"}
    source = f"import sys, {module}; print(*sorted({heavy} & set(sys.modules)))"
    command = [sys.executable, "-c", source]
    child = subprocess.run(command, check=True, capture_output=True, text=True)
    assert child.stdout.split() == []


def test_a_perf_run_starts_no_backend(perf_run: pytest.Pytester) -> None:
    """A run that finds the device, compares, measures and lints ends without a jax backend."""
    perf_run.makepyfile(MEASURED)
    result = perf_run.runpytest_subprocess("--benchmark-compare")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        ["*why training waits*", "*emulated-2ms*", "jax backend started: False"]
    )
