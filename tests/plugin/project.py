"""A project with performance tests of its own, whose sessions are recorded, not run."""

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from netpipe.duets.parent import Side, name_failures
from netpipe.gate.duets import Duet
from netpipe.jobs.parent import ProcessEnvironment
from netpipe.jobs.request import SessionRequest
from netpipe.plugin.run_plugin import JOBS
from netpipe.plugin.sessions import Jobs
from netpipe.results.measurement import Device, Measurement
from netpipe.results.work_profile import WorkProfile
from tests.plugin.recorded import CPU, make_duet, recorded
from tests.work_profiles import make_profile

HERE = ProcessEnvironment()

LINT = {
    "schema": "netpipe.lint/1",
    "intent": "throughput",
    "grain_version": "0.2.18",
    "graph": [],
    "findings": [],
    "silenced": [],
    "trials": [],
}

# Warnings would be errors, as in the run around it; and hypothesis takes a second to import.
INI = """[pytest]
filterwarnings = default
addopts = -p no:hypothesispytest
"""

# Querying the machine and git takes half a second.
CONFTEST = """
    import pytest

    def pytest_benchmark_generate_machine_info():
        return {"node": "testing", "cpu": {"brand_raw": "Testing CPU"}}

    def pytest_benchmark_generate_commit_info():
        return {"id": "0123456789"}

    @pytest.fixture
    def netpipe_loader():
        raise AssertionError("the loader belongs to a session's process")

    @pytest.fixture
    def netpipe_step():
        raise AssertionError("the step belongs to a session's process")
"""

LOAD_TIME = """
    def test_load_time(netpipe_benchmark):
        netpipe_benchmark("load_s_per_batch")
"""

NO_STALL = """
    from netpipe.testing import expect_no_stall

    def test_no_stall(netpipe_measurement, netpipe_limits):
        expect_no_stall(netpipe_measurement, netpipe_limits)
"""


def line_with(result: pytest.RunResult, *values: str) -> str:
    """Return the first line of a run's output with all of these values; fail without one."""
    for line in (*result.outlines, *result.errlines):
        if all(value in line for value in values):
            return line
    pytest.fail(f"no line of the output holds {values}")


def lost(result: pytest.RunResult) -> set[str]:
    """Return the benchmarks that a run lists as lost."""
    before = "in the baseline, but no test produced it: "
    return {line.removeprefix(before) for line in result.outlines if line.startswith(before)}


def leave_xdist(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove variables that would make a run within this one act as a worker."""
    for name in [name for name in os.environ if name.startswith("PYTEST_XDIST")]:
        monkeypatch.delenv(name)


@dataclass(eq=False)  # pytest 8.3 needs a hashable plugin
class Project:
    """A folder of performance tests that runs in this process.

    Attributes:
        pytester: Its folder, and pytest in it.
        sessions: What its sessions measure, one after the other; the last one again and again.
        device: The device of this machine.
        lint: The order of the pipeline that its sessions report.
        profiles: The profiles of its sessions, one after the other; the last one again and again.
        commands: The commands of the sessions that were started.
        requests: The requests of these sessions.
        places: Where they were started.
    """

    pytester: pytest.Pytester
    sessions: list[Measurement] = field(default_factory=lambda: [recorded()])
    device: Device = CPU
    lint: dict[str, Any] = field(default_factory=lambda: dict(LINT))
    profiles: list[WorkProfile] = field(default_factory=lambda: [make_profile()])
    commands: list[list[str]] = field(default_factory=list)
    requests: list[Any] = field(default_factory=list)
    places: list[ProcessEnvironment] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.jobs = Jobs(
            measure=self.measured,
            lint=self.linted,
            count_work=self.counted,
            run_duet=self.dueted,
            find_device=lambda: self.device,
        )

    def uses(self, **jobs: Any) -> None:
        """Replace functions that start sessions."""
        self.jobs = replace(self.jobs, **jobs)

    def fails(self, error: BaseException) -> None:
        """Let every session that measures fail."""

        def fail(*_: object, **__: object) -> Measurement:
            raise error

        self.uses(measure=fail)

    def pytest_load_initial_conftests(self, early_config: pytest.Config) -> None:
        """Hand the functions that start sessions to the plugin."""
        early_config.stash[JOBS] = self.jobs

    def measured(
        self, command: Sequence[str], request: SessionRequest, place: ProcessEnvironment = HERE,
        progress: object = None,  # noqa: ARG002  # not used
    ) -> Measurement:  # fmt: skip
        """Replace a session that measures."""
        self._note(command, request, place)
        return self.sessions.pop(0) if len(self.sessions) > 1 else self.sessions[0]

    def dueted(self, base: Side[Any], now: Side[Any]) -> Duet:
        """Replace a duet: each side measures once, and every slice is equal to that."""

        def measure(side: Side[Any]) -> Measurement:
            with name_failures(side.name):
                return self.jobs.measure(side.command, side.request, side.environment)

        return make_duet(now.request.quantity, measure(base), measure(now))

    def linted(
        self, command: Sequence[str], request: SessionRequest,
        progress: object = None,  # noqa: ARG002  # not used
    ) -> dict[str, Any]:  # fmt: skip
        """Replace a session that reads the order."""
        self._note(command, request)
        return self.lint

    def counted(
        self, command: Sequence[str], request: SessionRequest, place: ProcessEnvironment = HERE,
        progress: object = None,  # noqa: ARG002  # not used
        hash_seeds: Sequence[str] = ("0", "1"),  # noqa: ARG002  # not used
    ) -> WorkProfile:  # fmt: skip
        """Replace the sessions that count work."""
        self._note(command, request, place)
        return self.profiles.pop(0) if len(self.profiles) > 1 else self.profiles[0]

    def _note(
        self, command: Sequence[str], request: SessionRequest, place: ProcessEnvironment = HERE
    ) -> None:
        self.commands.append(list(command))
        self.requests.append(request)
        self.places.append(place)

    def has(self, text: str, name: str = "test_perf") -> Path:
        """Write a test file."""
        return self.pytester.makepyfile(**{name: text})

    def run(self, *arguments: str) -> pytest.RunResult:
        """Run pytest on the project."""
        return self.pytester.runpytest_inprocess(*arguments, plugins=[self])

    def compare(self, *arguments: str) -> pytest.RunResult:
        """Run pytest on the project and compare it with its baseline."""
        return self.run(*arguments, "--benchmark-compare")

    def record(self, *sessions: Measurement) -> None:
        """Record a baseline with each of these three times, then forget its sessions.

        Fewer than three sessions do not show their spread.
        """
        before, self.sessions = self.sessions, [*(sessions or [recorded()])] * 3
        count = str(len(self.sessions))
        result = self.run("--netpipe-record", "first", "--netpipe-sessions", count)
        assert result.ret == pytest.ExitCode.OK
        self.sessions = before
        self.commands.clear()
        self.requests.clear()
        self.places.clear()

    @property
    def baselines(self) -> list[str]:
        """The files below `baselines`, in order."""
        folder = self.pytester.path / "baselines"
        return sorted(
            str(path.relative_to(folder)) for path in folder.glob("**/*.*") if path.is_file()
        )

    def read_json(self, name: str) -> Any:
        """Read a JSON file of the project."""
        return json.loads((self.pytester.path / name).read_text(encoding="utf-8"))
