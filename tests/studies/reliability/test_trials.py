"""A disturbed command is blamed for leftovers, and only for those."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from perf_tests.studies.reliability import trials
from perf_tests.studies.reliability.commands import Command
from perf_tests.studies.reliability.disturbances import Disturbance, may_mount
from perf_tests.studies.reliability.trials import Trial, run, time_undisturbed

_ALONE = Disturbance("alone", 1)


@dataclass(frozen=True)
class _Script(Command):
    """Python code that replaces a netpipe command."""

    @property
    def arguments(self) -> list[str]:
        """The command line to start."""
        return [sys.executable, "-c", *self.words]


def _check_json(project: Path) -> Iterator[str]:
    if (project / "out").exists():
        try:
            json.loads((project / "out").read_text())
        except ValueError:
            yield "out is torn"


@pytest.fixture
def template(tmp_path: Path) -> Path:
    """Return a project in a git repository, without a commit."""
    folder = tmp_path / "template"
    folder.mkdir()
    subprocess.run(["git", "init", "--quiet"], cwd=folder, check=True)
    return folder


def _try(code: str, template: Path, disturbance: Disturbance = _ALONE, span_s: float = 0) -> Trial:
    command = _Script("script", (code,), _check_json, ("out",))
    return run(command, disturbance, template, span_s, "any seed")


@pytest.mark.parametrize(
    ("code", "problem"),
    [
        ("open('stray', 'w')", "left: stray"),
        ("import tempfile; tempfile.mkdtemp(prefix='stray', suffix='x')", "left: tmp/stray"),
        pytest.param(
            "open('/dev/shm/stray', 'w')",
            "left: /dev/shm/stray",
            marks=pytest.mark.skipif(not may_mount(), reason="this user may not mount"),
        ),
        ("open('out', 'w').write('{')", "out is torn"),
        ("import sys; sys.exit(5)", "exit code 5"),
        ("raise ValueError('planted')", "traceback"),
    ],
    ids=["file", "temporary folder", "shared memory", "torn output", "exit code", "traceback"],
)
def test_damage_is_found(template: Path, code: str, problem: str) -> None:
    """Each kind of damage is a problem of the trial, and its output is kept."""
    trial = _try(code, template)
    assert [found for found in trial.problems if found.startswith(problem)]


def test_a_clean_command_has_no_problem(template: Path) -> None:
    """A complete output, or one line of error for bad input, is not a problem."""
    code = "import sys; open('out', 'w').write('{}'); sys.exit('error: no such file')"
    trial = _try(code, template)
    assert (trial.problems, trial.log, trial.exit_codes) == ((), "", (1,))


def test_two_copies_run_in_one_project(template: Path) -> None:
    """Both copies write into one folder, and the exit code of each is kept."""
    code = "import os, sys; open(f'out{os.getpid()}', 'w'); sys.exit(2)"
    trial = _try(code, template, Disturbance("two", 1, copies=2))
    assert trial.exit_codes == (2, 2)
    assert len(trial.problems) == 2


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_command(template: Path, sent: signal.Signals) -> None:
    """The command gets the signal, also from a study that ignores it because of nohup."""
    ignored = signal.signal(sent, signal.SIG_IGN)
    try:
        trial = _try("import time; time.sleep(600)", template, Disturbance("ended", 1, sent))
    finally:
        signal.signal(sent, ignored)
    assert (trial.exit_codes, trial.problems) == ((-sent,), ())


def test_what_sigkill_leaves_must_go_with_the_next_run(template: Path) -> None:
    """Files that a killed command left are a problem only if the next run leaves them too."""
    tidy = """
import os, pathlib, signal
if pathlib.Path("stray").exists():
    os.remove("stray")
else:
    open("stray", "w")
    os.kill(os.getpid(), signal.SIGKILL)
"""
    killed = Disturbance("KILL", 1, signal.SIGKILL)
    assert _try(tidy, template, killed, span_s=60).problems == ()
    assert _try(tidy.replace("os.remove", "open"), template, killed, span_s=60).problems


def test_the_run_after_sigkill_must_succeed(template: Path) -> None:
    """The run after a kill must cope with its leftovers."""
    fails = """
import os, pathlib, signal, sys
if pathlib.Path("out").exists():
    print("Traceback (most recent call last)")
    sys.exit(2)
open("out", "w").write("{}")
os.kill(os.getpid(), signal.SIGKILL)
"""
    trial = _try(fails, template, Disturbance("KILL", 1, signal.SIGKILL), span_s=60)
    assert trial.problems == ("the next run: exit code 2", "traceback")


def test_a_command_that_a_signal_makes_fail_is_a_problem(template: Path) -> None:
    """The exit code must name the signal, unless the command had finished."""
    fails = "import signal, sys; signal.signal(signal.SIGTERM, lambda *_: sys.exit(1)); "
    fails += "signal.raise_signal(signal.SIGTERM)"
    trial = _try(fails, template, Disturbance("ended", 1, signal.SIGTERM), span_s=60)
    assert trial.problems == ("exit code 1",)


def test_a_process_that_outlives_the_command_is_a_problem(
    template: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The trial is recorded, and the process is ended even if it holds the output open."""
    monkeypatch.setattr(trials, "_ENDING_S", 0.1)
    code = "import subprocess; subprocess.Popen(['sleep', '600'])"
    assert _try(code, template).problems == ("process left: sleep 600",)


def test_a_command_that_fails_undisturbed_is_not_tried(template: Path) -> None:
    """A command that fails undisturbed is refused."""
    for code in ("import sys; sys.exit(2)", "pass"):
        with pytest.raises(RuntimeError, match="script"):
            time_undisturbed(_Script("script", (code,), _check_json, ("out",)), template)
