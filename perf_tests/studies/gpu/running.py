"""Runs the steps of a stage within its time, and keeps each outcome as soon as a step ends."""

import json
import os
import signal
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from perf_tests.studies.children import end_group
from perf_tests.studies.gpu.stages import Step
from perf_tests.studies.records import append_record, read_records

ROOT: Final = Path(__file__).parents[3]
DONE, FAILED, NO_TIME = "done", "failed", "no time left"
MARGIN_S: Final = 25.0  # for ending the last command and packing the archive


@dataclass(frozen=True)
class Outcome:
    """The outcome of a step.

    Attributes:
        command: The command line; None if it was not started.
        exit_code: None if it was not started, or took too long.
        why: Why it failed; for a planted fault, the verdict.
    """

    step: str
    outcome: str
    command: tuple[str, ...] | None = None
    exit_code: int | None = None
    elapsed_s: float = 0.0
    why: str = ""


Run = Callable[[Sequence[str], Path, Path, float], int | None]
"""Runs a command with files for its output and its log, with a limit in seconds.

It returns the exit code; None if the command was ended.
"""


def run_steps(
    steps: Sequence[Step],
    out: Path,
    *,
    ends_s: float,
    run: Run,
    clock: Callable[[], float],
) -> Iterator[Outcome]:
    """Run steps until `ends_s` on the clock; yield the outcome of each, in order.

    Steps that are done according to the folder are skipped.
    """
    out.mkdir(parents=True, exist_ok=True)
    records = out / "steps.jsonl"
    done = {each.step: each for each in read_records(records, Outcome) if each.outcome == DONE}
    for step in steps:
        if step.name in done:
            yield done[step.name]
            continue
        started_s = clock()
        outcome = _run_step(step, out, ends_s - MARGIN_S - started_s, run)
        outcome = replace(outcome, elapsed_s=round(clock() - started_s, 1))
        append_record(records, outcome)
        yield outcome


def _run_step(step: Step, out: Path, left_s: float, run: Run) -> Outcome:
    if left_s < step.least_s:
        return Outcome(step.name, NO_TIME)
    if step.needs and find_spec(step.needs) is None:
        return Outcome(step.name, FAILED, why=f"{step.needs} is not installed")
    command = (sys.executable, "-m", *step.words)
    output, limit_s = out / f"{step.name}.out", min(step.limit_s, left_s)
    code = run(command, output, out / f"{step.name}.log", limit_s)
    if code is None:
        return Outcome(step.name, FAILED, command, why=f"it took more than {limit_s:.0f} s")
    is_right, why = (code == 0, f"exit code {code}" if code else "")
    if step.expects:
        found = read_names(output)
        is_right, why = bool(set(step.expects) & set(found)), ", ".join(found) or why
    return Outcome(step.name, DONE if is_right else FAILED, command, code, why=why)


def read_names(output: Path) -> list[str]:
    """Return the kind of a printed measurement's verdict, and the names of its findings."""
    try:
        document: Mapping[str, Any] = json.loads(output.read_text("utf-8"))
        return [document["verdict"]["kind"], *(each["name"] for each in document["findings"])]
    except (OSError, ValueError, KeyError):
        return []


def run_command(
    command: Sequence[str], output: Path, log: Path, limit_s: float, platforms: str = ""
) -> int | None:
    """Run a command in this checkout, then end the rest of its process group."""
    with (
        output.open("w", encoding="utf-8") as stdout,
        log.open("w", encoding="utf-8") as stderr,
        subprocess.Popen(
            command, cwd=ROOT, env=_environment(platforms), stdin=subprocess.DEVNULL,
            stdout=stdout, stderr=stderr, start_new_session=True, text=True,
        ) as child,
    ):  # fmt: skip
        try:
            return child.wait(limit_s)
        except subprocess.TimeoutExpired:
            return None
        finally:
            end_group(child)
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)


def _environment(platforms: str) -> dict[str, str]:
    """Return the variables that let a checkout work without being installed."""
    paths = (str(ROOT), os.environ.get("PYTHONPATH", ""))
    added = {"PYTHONPATH": os.pathsep.join(filter(None, paths)), "PYTHONUNBUFFERED": "1"}
    if not entry_points(group="pytest11", name="netpipe"):
        added["PYTEST_PLUGINS"] = "netpipe.pytest_plugin"
    if platforms:
        added["JAX_PLATFORMS"] = platforms
    return {**os.environ, **added}


def pack(out: Path, archive: Path) -> None:
    """Pack a folder into one file, atomically."""
    part = archive.with_name(f"{archive.name}.part")
    with tarfile.open(part, "w:gz") as packed:
        packed.add(out, arcname=out.name)
    part.replace(archive)
