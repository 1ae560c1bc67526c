"""A stage keeps its time, its partial results and what earlier runs have done."""

import json
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest

from netpipe.clock import RecordedClock
from perf_tests.studies.gpu.running import (
    DONE,
    FAILED,
    MARGIN_S,
    NO_TIME,
    Outcome,
    run_command,
    run_steps,
)
from perf_tests.studies.gpu.stages import Step
from perf_tests.studies.records import read_records

STEPS = [Step("one", ("a",)), Step("two", ("b",)), Step("three", ("c",))]
LIMIT_S = 600.0


@dataclass
class Commands:
    """Fake commands that take no real time.

    Attributes:
        takes_s: Seconds of each command by its first word; 10 by default.
        codes: Exit codes, 0 if not named. An exception is raised instead.
        output: What each prints.
        ran: The first word of each command that was started, and its limit.
    """

    takes_s: dict[str, float] = field(default_factory=dict)
    codes: dict[str, int | BaseException] = field(default_factory=dict)
    output: str = ""
    ran: list[tuple[str, float]] = field(default_factory=list)
    clock: RecordedClock = field(default_factory=RecordedClock)

    def run(self, command: Sequence[str], output: Path, log: Path, limit_s: float) -> int | None:
        """Pretend to run a command, and end it at its limit."""
        word, takes_s = command[2], self.takes_s.get(command[2], 10.0)
        self.ran.append((word, limit_s))
        self.clock.advance(min(takes_s, limit_s))
        output.write_text(self.output)
        log.touch()
        code = self.codes.get(word, 0)
        if isinstance(code, BaseException):
            raise code
        return None if takes_s > limit_s else code

    def outcomes(self, out: Path, steps: Sequence[Step] = STEPS) -> list[Outcome]:
        """Run steps in a folder within ten simulated minutes."""
        ends_s = self.clock() + LIMIT_S
        every = run_steps(steps, out, ends_s=ends_s, run=self.run, clock=self.clock)
        return list(every)


def names(outcomes: Sequence[Outcome]) -> list[str]:
    """Return the outcome of each step."""
    return [each.outcome for each in outcomes]


def test_every_command_has_a_part_of_what_remains(tmp_path: Path) -> None:
    """A hanging command is ended in time, and steps that no longer fit are not started."""
    steps = [Step(name, (name,), limit_s=350.0) for name in ("slow", "slower", "late")]
    commands = Commands(takes_s={"slow": 1000.0, "slower": 1000.0})
    outcomes = commands.outcomes(tmp_path, steps)
    assert commands.ran == [("slow", 350.0), ("slower", LIMIT_S - MARGIN_S - 350.0)]
    assert commands.clock() <= LIMIT_S - MARGIN_S
    assert names(outcomes) == [FAILED, FAILED, NO_TIME]
    assert "it took more than 350 s" in outcomes[0].why


def test_a_killed_stage_keeps_what_is_done_and_goes_on(tmp_path: Path) -> None:
    """Each step is in the file as soon as it ends; the next run starts with the interrupted one."""
    killed = Commands(codes={"b": SystemExit(143)})
    with pytest.raises(SystemExit):
        killed.outcomes(tmp_path)
    [kept] = read_records(tmp_path / "steps.jsonl", Outcome)
    assert (kept.step, kept.outcome, kept.elapsed_s) == ("one", DONE, 10.0)
    assert (tmp_path / "one.log").exists()
    later = Commands()
    assert names(later.outcomes(tmp_path)) == [DONE, DONE, DONE]
    assert [word for word, _ in later.ran] == ["b", "c"]


def test_a_step_without_its_package_is_not_started(tmp_path: Path) -> None:
    """The step fails with the name of the package."""
    commands = Commands()
    [outcome] = commands.outcomes(tmp_path, [Step("page", ("a",), needs="no_such_package")])
    assert (outcome.outcome, outcome.why) == (FAILED, "no_such_package is not installed")
    assert commands.ran == []


@pytest.mark.parametrize(
    ("kind", "finding", "outcome", "why"),
    [
        ("forced-sync", "busy-host", DONE, "forced-sync, busy-host"),
        ("healthy", "busy-host", FAILED, "healthy, busy-host"),
        ("healthy", "donation-missing", DONE, "healthy, donation-missing"),
    ],
)
def test_a_planted_fault_must_be_named(
    tmp_path: Path, kind: str, finding: str, outcome: str, why: str
) -> None:
    """The verdict or a finding decides, not the exit code, which is 1 for most faults."""
    printed = json.dumps({"verdict": {"kind": kind}, "findings": [{"name": finding}]})
    step = Step("fault", ("a",), expects=("forced-sync", "donation-missing"))
    [found] = Commands(codes={"a": 1}, output=printed).outcomes(tmp_path, [step])
    assert (found.outcome, found.why) == (outcome, why)


def test_a_command_that_does_not_end_is_ended(tmp_path: Path) -> None:
    """The command has no exit code."""
    command = [sys.executable, "-S", "-c", "import time; time.sleep(600)"]
    assert run_command(command, tmp_path / "output", tmp_path / "log", 0.1) is None


def test_nothing_outlives_the_command_that_started_it(tmp_path: Path) -> None:
    """The process group of the command is ended with it."""
    program = (
        "import subprocess, sys; "
        "print(subprocess.Popen([sys.executable, '-S', '-c', 'import time; time.sleep(600)']).pid)"
    )
    output, log = tmp_path / "output", tmp_path / "log"
    assert run_command([sys.executable, "-S", "-c", program], output, log, 300.0) == 0
    with suppress(psutil.NoSuchProcess):
        psutil.Process(int(output.read_text())).wait(60.0)


def test_a_command_runs_in_the_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The checkout's code is importable without being installed, and each log is its own file."""
    monkeypatch.setenv("JAX_PLATFORMS", "cuda")
    program = "import sys, netpipe, os; print(os.environ['JAX_PLATFORMS']); sys.stderr.write('log')"
    output, log = tmp_path / "output", tmp_path / "log"
    assert run_command([sys.executable, "-P", "-c", program], output, log, 300.0, "cpu") == 0
    assert (output.read_text(), log.read_text()) == ("cpu\n", "log")


def test_a_failing_step_does_not_stop_the_others(tmp_path: Path) -> None:
    """Its exit code is kept."""
    outcomes = Commands(codes={"b": 3}).outcomes(tmp_path)
    assert names(outcomes) == [DONE, FAILED, DONE]
    assert (outcomes[1].exit_code, outcomes[1].why) == (3, "exit code 3")
