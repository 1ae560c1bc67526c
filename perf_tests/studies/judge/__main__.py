"""`python -m perf_tests.studies.judge`: judge planted changes; `--only` names some of them."""

import json
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click

from perf_tests.studies.judge.changes import CHEATS, HONEST, Change
from perf_tests.studies.options import exit_on_signals
from perf_tests.studies.records import append_record

_PIPELINE = Path(__file__).with_name("pipeline.py").read_text("utf-8")
_GIT = ("git", "-c", "user.name=study", "-c", "user.email=study@example.org")


@dataclass(frozen=True)
class Trial:
    """One change, its verdict, and whether it is the one it deserves."""

    change: str
    verdict: str
    decisive: list[str]
    reasons: list[str]
    is_right: bool
    seconds: float


def judge(change: Change, *, is_timed: bool) -> Trial:
    """Judge a change in a repository of its own."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "pipeline.py").write_text(_PIPELINE)
        for words in (("init", "-q"), ("add", "."), ("commit", "-qm", "base")):
            subprocess.run([*_GIT, *words], cwd=folder, check=True)
        (folder / "pipeline.py").write_text(change.apply(_PIPELINE))
        lines = [f"{json.dumps(key)} = {json.dumps(why)}\n" for key, why in change.declared]
        table = f"[tool.netpipe.judge.accept]\n{''.join(lines)}"
        (folder / "pyproject.toml").write_text(table)
        flags = [*["--claim=faster"] * change.claims, *["--no-timing"] * (not is_timed)]
        command = [sys.executable, "-m", "netpipe", "judge", "HEAD", "--quiet", "--json", *flags]
        began_s = time.monotonic()
        done = subprocess.run(
            [*command, "--loader", "pipeline.py:batches"],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
        seconds = time.monotonic() - began_s
    if not done.stdout:
        return Trial(change.name, "FAILED", [], [done.stderr], is_right=False, seconds=seconds)
    found: dict[str, Any] = json.loads(done.stdout)
    verdict, decisive = found["verdict"], found["decisive"]
    is_right = verdict == "REFUSED" and {*decisive} >= {*change.decisive}
    if not change.decisive:
        left_open = set() if is_timed else {"faster", "memory", "start"}
        is_right = verdict != "REFUSED" and {*decisive} <= left_open
    reasons = [
        f"{each['question']}: {each['reason']}"
        for each in found["checks"]
        if each["question"] in decisive
    ]
    return Trial(change.name, verdict, decisive, reasons, is_right, round(seconds, 1))


@click.command()
@click.option("--only", multiple=True, help="Only the changes with these names.")
@click.option("--no-timing", is_flag=True, help="Leave out the changes that only timing decides.")
@click.option("--trials", type=Path, help="Append each trial to this file.")
def main(only: tuple[str, ...], no_timing: bool, trials: Path | None) -> None:
    """Judge each change once; the exit code is 1 if a verdict is wrong."""
    exit_on_signals()
    chosen = [each for each in (*CHEATS, *HONEST) if not only or each.name in only]
    wrong = 0
    for change in chosen:
        if change.is_timed and no_timing:
            continue
        trial = judge(change, is_timed=not no_timing)
        wrong += not trial.is_right
        mark = "right" if trial.is_right else "WRONG"
        answer = f"{trial.verdict} {trial.decisive} after {trial.seconds} s: {trial.reasons}"
        click.echo(f"{mark}: {trial.change}: {answer}")
        if trials:
            append_record(trials, trial)
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
