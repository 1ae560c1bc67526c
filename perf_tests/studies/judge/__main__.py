"""`python -m perf_tests.studies.judge`: judge planted changes; `--only` names some of them."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import click

from netpipe.device.host import this_host
from netpipe.git import git
from perf_tests.studies.faults.busy import busy_core
from perf_tests.studies.judge.changes import CHEATS, HONEST, OURS, Change
from perf_tests.studies.options import exit_on_signals
from perf_tests.studies.records import append_record, read_records

_FOLDER: Final = Path(__file__).parent
_KEPT: Final = _FOLDER / "trials.jsonl"
_PIPELINE: Final = (_FOLDER / "pipeline.py").read_text("utf-8")
_OF_AN_EPOCH: Final = 1_200  # of the embedded data, which has 1,169
_GIT: Final = ("git", "-c", "user.name=study", "-c", "user.email=study@example.org")


@dataclass(frozen=True)
class Trial:
    """One change, its verdict, and whether it is the one it deserves.

    Attributes:
        commit: The checkout's commit; ends with "+" if the working tree differed from it.
        is_busy: Whether a program loaded a core at random meanwhile.
    """

    change: str
    verdict: str
    decisive: list[str]
    reasons: list[str]
    is_right: bool
    seconds: float
    commit: str
    host: str
    began: str
    is_busy: bool


@contextmanager
def _repository(change: Change) -> Iterator[tuple[Path, list[str]]]:
    """Yield a repository whose working tree has a change, and the words that name its loader."""
    if change is OURS:
        loader = "perf_tests/studies/judge/ours.py:batches"
        yield _FOLDER.parents[2], ["--loader", loader, f"--batches={_OF_AN_EPOCH}"]
        return
    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "pipeline.py").write_text(_PIPELINE)
        for words in (("init", "-q"), ("add", "."), ("commit", "-qm", "base")):
            subprocess.run([*_GIT, *words], cwd=folder, check=True)
        (folder / "pipeline.py").write_text(change.apply(_PIPELINE))
        lines = [f"{json.dumps(key)} = {json.dumps(why)}\n" for key, why in change.declared]
        table = f"[tool.netpipe.judge.accept]\n{''.join(lines)}"
        (folder / "pyproject.toml").write_text(table)
        yield folder, ["--loader", "pipeline.py:batches"]


def judge(change: Change, *, is_timed: bool, is_busy: bool = False) -> Trial:
    """Judge a change, beside a busy core or not."""
    commit = git(_FOLDER, "describe", "--always", "--abbrev=12", "--dirty=+", "--exclude=*")
    began, started_s, host = datetime.now(UTC), time.monotonic(), this_host()
    flags = [*["--claim=faster"] * change.claims, *["--no-timing"] * (not is_timed)]
    command = [sys.executable, "-m", "netpipe", "judge", "HEAD", "--quiet", "--json", *flags]
    with ExitStack() as beside:
        folder, words = beside.enter_context(_repository(change))
        beside.enter_context(busy_core(at_random=True) if is_busy else nullcontext())
        done = subprocess.run(
            [*command, *words],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
    found: dict[str, Any] = json.loads(done.stdout) if done.stdout else {}
    verdict, decisive = found.get("verdict", "FAILED"), found.get("decisive", [])
    is_right = verdict == "REFUSED" and {*decisive} >= {*change.decisive}
    if not change.decisive:
        left_open = set() if is_timed else {"faster", "memory", "start"}
        is_right = verdict in ("ACCEPTED", "UNDECIDED") and {*decisive} <= left_open
    return Trial(
        change=change.name,
        verdict=verdict,
        decisive=decisive,
        reasons=[
            f"{each['question']}: {each['reason']}"
            for each in found.get("checks", ())
            if each["question"] in decisive
        ]
        or [done.stderr] * (not found),
        is_right=is_right,
        seconds=round(time.monotonic() - started_s, 1),
        commit=commit,
        host=f"{host.cpu}, {host.cores} cores",
        began=began.isoformat(timespec="seconds"),
        is_busy=is_busy,
    )


def format_table(trials: Sequence[Trial]) -> Iterator[str]:
    """Format as Markdown how often each verdict was given to each group of changes."""
    groups = {
        "wrong": [each.name for each in CHEATS],
        "honest": [each.name for each in HONEST if each.lines],
        "unchanged": [each.name for each in (*HONEST, OURS) if not each.lines],
    }
    yield "| changes | beside a busy core | trials | ACCEPTED | UNDECIDED | REFUSED | right |"
    yield "|---|---|--:|--:|--:|--:|--:|"
    for group, names in groups.items():
        for is_busy in (False, True):
            tried = [each for each in trials if each.change in names and each.is_busy == is_busy]
            if tried:
                counts = [
                    sum(each.verdict == verdict for each in tried)
                    for verdict in ("ACCEPTED", "UNDECIDED", "REFUSED")
                ]
                right = f"{sum(each.is_right for each in tried)} of {len(tried)}"
                cells = [group, "yes" if is_busy else "no", len(tried), *counts, right]
                yield f"| {' | '.join(map(str, cells))} |"


@click.command()
@click.option("--only", multiple=True, help="Only the changes with these names.")
@click.option(
    "--no-timing", is_flag=True,
    help="Leave out the changes that only timing decides, and keep no trials.",
)  # fmt: skip
@click.option("--times", default=1, show_default=True, help="Judge each change as often as this.")
@click.option("--busy", is_flag=True, help="Load a core at random meanwhile.")
@click.option(
    "--trials", "path", type=click.Path(dir_okay=False, path_type=Path),
    default=_KEPT, show_default=True, help="The file of trials with timing; it is appended to.",
)  # fmt: skip
def main(only: tuple[str, ...], no_timing: bool, times: int, busy: bool, path: Path) -> None:
    """Judge changes; the exit code is 1 if a verdict is wrong. --times 0 prints the table."""
    exit_on_signals()
    wrong = 0
    chosen = [each for each in (*CHEATS, *HONEST, OURS) if not only or each.name in only]
    for change in [each for _ in range(times) for each in chosen]:
        if change.is_timed and no_timing:
            continue
        trial = judge(change, is_timed=not no_timing, is_busy=busy)
        wrong += not trial.is_right
        mark = "right" if trial.is_right else "WRONG"
        answer = f"{trial.verdict} {trial.decisive} after {trial.seconds} s: {trial.reasons}"
        click.echo(f"{mark}: {trial.change}: {answer}", err=True)
        if not no_timing:
            append_record(path, trial)
    for line in format_table(read_records(path, Trial)):
        click.echo(line)
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
