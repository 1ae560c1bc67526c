"""--netpipe-against baseline: whether the code or the machine has changed since the baseline."""

from dataclasses import replace

import pytest

from netpipe.results.measurement import Device, Measurement
from tests.plugin.project import CONFTEST, HERE, NO_STALL, Project, line_with
from tests.plugin.recorded import H200, recorded
from tests.repository import commit_files
from tests.workflows import run_with, scripts, tox_flags

STEP_TIME = """
    def test_step_time(netpipe_benchmark):
        netpipe_benchmark("step_s")
"""
AGAINST_BASELINE = ("--netpipe-against", "baseline")
CONFIRM = next(script for script in scripts("gpu.yml") if "confirmed" in script)

FIRST = "h200-x1/0001_first.json"


def slower(times: float) -> Measurement:
    """Return a healthy session on a GPU whose steps take a multiple of the usual time."""
    return recorded(step_s=0.030 * times, train_s=0.030 * times, device=H200)


class Versions:
    """A project on a GPU with a history.

    Attributes:
        now: The session of the working tree.
        base: The session of the other version.
    """

    def __init__(self, project: Project) -> None:
        self.project = project
        self.now = self.base = slower(1.0)
        project.device = H200
        project.has(STEP_TIME)
        self.commit()

    def commit(self) -> str:
        """Commit all files, and let recordings name that commit."""
        sha = commit_files(self.project.pytester.path, {})
        self.recorded_at(sha)
        return sha

    def recorded_at(self, sha: str, *, dirty: bool = False) -> None:
        """Let recordings name a commit."""
        info = repr({"id": sha, "dirty": dirty})
        self.project.pytester.makeconftest(CONFTEST.replace('{"id": "0123456789"}', info))

    def record(self, measured: Measurement, name: str = "first") -> None:
        """Record a baseline of three sessions."""
        self.now = measured
        flags = ("--netpipe-record", name, "--netpipe-sessions", "3")
        assert self.project.run(*flags).ret == pytest.ExitCode.OK

    def confirm(self, *flags: str) -> pytest.RunResult:
        """Run what gpu.yml runs after an alarm."""
        folder = self.project.pytester.path
        (folder / "results").mkdir(exist_ok=True)
        ((run, *words),) = run_with("pipx", CONFIRM, folder, {"DEVICE": "h200"})
        assert (run, words[:4]) == ("run", ["tox", "-e", "h200", "--"])
        return self.project.run(*tox_flags("h200", words[4:]), *flags)


@pytest.fixture
def versions(project: Project, monkeypatch: pytest.MonkeyPatch) -> Versions:
    """A project that has been committed, on a GPU."""
    made = Versions(project)

    def measured(command, request, place=HERE, progress=None):  # type: ignore[no-untyped-def]
        project.measured(command, request, place, progress)
        return made.base if place.folder is not None else made.now

    project.uses(measure=measured)
    monkeypatch.delenv("GITHUB_BASE_REF", raising=False)
    return made


def test_a_regression_that_came_in_small_steps_is_not_cleared(versions: Versions) -> None:
    """A step 3.00 times the baseline's fails, because the baseline's commit is still fast."""
    versions.record(slower(1.0))
    versions.commit()
    versions.now, versions.base = slower(3.0), slower(1.0)
    result = versions.confirm()
    result.assert_outcomes(failed=1)
    line_with(result, "REGRESSED against", "step_s", "3.00 x")
    line_with(result, "REGRESSED:", "step_s", "3.00 x", FIRST)


def test_the_ref_is_the_commit_of_the_baseline(versions: Versions) -> None:
    """The other version is the commit of the latest baseline."""
    versions.record(slower(1.0))
    at = versions.commit()
    versions.record(slower(1.0), "second")
    versions.commit()
    versions.confirm()
    document = versions.project.read_json("results/confirmed-run.json")
    assert document["against"]["commit"] == at
    assert document["against"]["ref"] == at[:12]


def test_a_changed_machine_fails_no_run(versions: Versions) -> None:
    """The run passes if the baseline's own commit is as slow now."""
    versions.record(slower(1.0))
    versions.commit()
    versions.now = versions.base = slower(3.0)
    result = versions.confirm()
    result.assert_outcomes(passed=1)
    line_with(result, "NOT_COMPARED", "step_s", "3.00 x", FIRST, "machine")


@pytest.mark.parametrize("step", range(1, 4))
def test_small_steps_fail_at_the_drift_bound(versions: Versions, step: int) -> None:
    """4% for each commit, each with a baseline of its own, passes up to 8% and fails beyond 10%."""
    versions.record(slower(1.0))
    for number in range(1, step):
        versions.commit()
        versions.record(slower(1.04**number), f"step-{number}")
    versions.commit()
    versions.now, versions.base = slower(1.04**step), slower(1.04 ** (step - 1))
    result = versions.confirm()
    result.assert_outcomes(**({"failed": 1} if step == 3 else {"passed": 1}))
    if step == 3:
        line_with(result, "REGRESSED:", "step_s", "1.12 x", FIRST)


def test_a_commit_that_is_not_here_clears_nothing(versions: Versions) -> None:
    """A baseline whose commit was rebased away, or not fetched, ends the run with an error."""
    versions.recorded_at("0123456789abcdef0123456789abcdef01234567")
    versions.record(slower(1.0))
    result = versions.confirm()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    line_with(result, "REF", "commit", "0123456789ab")


def test_uncommitted_changes_clear_nothing(versions: Versions) -> None:
    """A baseline of a changed working tree has no commit to measure again."""
    versions.recorded_at(versions.commit(), dirty=True)
    versions.record(slower(1.0))
    result = versions.confirm()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    line_with(result, "0001_first.json", "commit_info.dirty", "true")


def test_without_a_baseline_there_is_nothing_to_clear(versions: Versions) -> None:
    """A device that has no baseline is a usage error, which names the device."""
    result = versions.confirm()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--netpipe-against baseline*h200-x1*"])


def test_a_commit_clears_the_alarm_of_its_own_baseline_only(versions: Versions) -> None:
    """The first baseline's commit says nothing about an alarm of the latest baseline."""
    at = versions.commit()
    versions.record(slower(1.0))
    versions.commit()
    versions.record(slower(1.02), "second")
    versions.commit()
    versions.now = versions.base = slower(3.0)
    result = versions.project.compare("--netpipe-against", at)
    result.assert_outcomes(failed=1)
    line_with(result, "NOT_COMPARED", "step_s", "3.00 x", FIRST, "machine")
    line_with(result, "REGRESSED:", "step_s", "2.94 x", "h200-x1/0002_second.json")


def test_the_commit_needs_no_pytest_benchmark(versions: Versions) -> None:
    """The baseline names the commit to measure, even without pytest-benchmark's table."""
    versions.record(slower(1.0))
    versions.project.has(NO_STALL)
    versions.project.pytester.makeconftest("")  # The project's own has hooks of that plugin.
    result = versions.project.run(*AGAINST_BASELINE, "-p", "no:benchmark")
    result.assert_outcomes(passed=1)
    result.stdout.no_fnmatch_line("*INTERNALERROR*")


def test_the_accelerator_of_a_marker_has_the_baseline(versions: Versions) -> None:
    """A project whose tests all name one needs no flag that names it again."""
    marker = 'pytestmark = pytest.mark.netpipe(accelerator="emulated:30ms")'
    versions.project.has(f"\n    import pytest\n\n    {marker}\n{STEP_TIME}")
    device = Device("emulated-30ms", "emulated", "emulated")
    versions.commit()
    versions.record(replace(slower(1.0), device=device))
    versions.base = versions.now
    result = versions.project.run(*AGAINST_BASELINE)
    assert result.ret == pytest.ExitCode.OK
    line_with(result, "test_step_time", "PASS")
