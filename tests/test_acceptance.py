"""netpipe from end to end names a planted fault."""

import json
from pathlib import Path

import pytest

from tests.root_process import run_module
from tests.root_project import copied_project, perf_tests_of, put_in

# Loading takes half of a step of 60 ms: read late, a loss costs nothing; read at once, it makes
# a step take 90 ms.
EAGER_READER = """
import time
import numpy as np

def loader():
    while True:
        time.sleep(0.03)
        yield {"x": np.zeros((2, 4), np.int32)}

def loop(batches, state, step):
    for batch in batches:
        state, aux = step(state, batch)
        float(aux["loss"])
"""


def measured_kind(target: Path) -> str:
    """Measure the loader and the loop of a file; return the kind of the verdict."""
    measured = run_module(
        "netpipe", "measure", "--loader", f"{target}:loader", "--loop", f"{target}:loop",
        "--accelerator", "emulated:60ms", "--budget", "5", "--json",
    )  # fmt: skip
    assert measured.returncode in (1, 3), measured.stderr
    kind: str = json.loads(measured.stdout)["verdict"]["kind"]
    return kind


def test_a_loss_read_every_step_is_a_forced_sync(tmp_path: Path) -> None:
    """A loop that reads each loss at once gets the verdict forced-sync."""
    target = tmp_path / "eager_reader.py"
    target.write_text(EAGER_READER)
    # Once more, in case other programs took the machine.
    assert any(measured_kind(target) == "forced-sync" for _ in range(2))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a copy of this repository for planted faults, with a little data."""
    return copied_project(tmp_path)


NO_STEP = """

@pytest.fixture
def netpipe_step():
    return None
"""


def test_a_slow_sampler_fails_loading(project: Path) -> None:
    """A pipeline that became slow fails, and the message has the load time."""
    put_in(
        project / "netpipe" / "workload" / "sampling" / "sampler.py",
        "    block, target = drawn_from.block,",
        "    __import__('time').sleep(0.05)\n    block, target = drawn_from.block,",
    )
    # Without an emulated step and workers, less has to start.
    conftest = project / "perf_tests" / "conftest.py"
    conftest.write_text(conftest.read_text() + NO_STEP)
    (project / "alone.toml").write_text("[pipeline]\nworkers = 0\n")
    # Three rounds of so slow a loader do not fit into the usual budget on every machine.
    flags = ("--netpipe-config", "alone.toml", "--netpipe-budget", "6")
    test = "perf_tests/test_emulated.py::test_loading_stays_below_an_emulated_step"
    suite = perf_tests_of(project, test, *flags)
    assert suite.returncode == pytest.ExitCode.TESTS_FAILED, suite.stdout
    assert "loader too slow: " in suite.stdout
