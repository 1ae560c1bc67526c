"""`python -m perf_tests.studies.gate_power`: measure the gate's error rates."""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import click
from rich.console import Console

from netpipe.errors import NetpipeError
from perf_tests.studies.gate_power import live
from perf_tests.studies.gate_power.decisions import decide_in_order, replay_decisions
from perf_tests.studies.gate_power.rates import Row, format_table
from perf_tests.studies.gate_power.side_by_side import FEWEST
from perf_tests.studies.gate_power.trials import TRIALS, TrialSessions, group_by_trial

KEPT: Final = Path(__file__).with_name("sessions.jsonl.gz")
_FALSE_ALARMS: Final = 3_000
_notes = Console(stderr=True, highlight=False, soft_wrap=True)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--live", "cycles", type=click.IntRange(min=0), default=0, show_default=True,
    help="First measure each slowdown N times, each time beside a session without one.",
)  # fmt: skip
@click.option(
    "--only", multiple=True, type=click.Choice([trial.name for trial in TRIALS]),
    help="Measure only this slowdown. May be repeated.",
)  # fmt: skip
@click.option(
    "--sessions", "path", type=click.Path(dir_okay=False, path_type=Path), default=KEPT,
    help="The file of sessions; new ones are added to it.  [default: those of this repository]",
)  # fmt: skip
@click.option(
    "--budget", type=click.FloatRange(min=0, min_open=True), default=10.0, show_default=True,
    help="Seconds of rounds per session.",
)  # fmt: skip
@click.option(
    "--decisions", type=click.IntRange(min=1), default=_FALSE_ALARMS, show_default=True,
    help="Decisions to replay for each slowdown.",
)  # fmt: skip
@click.option("--seed", type=int, default=1, show_default=True, help="Seed of the replay.")
def main(
    cycles: int, only: Sequence[str], path: Path, budget: float, decisions: int, seed: int
) -> None:
    """Print how often the gate fails unchanged code, and how often slower code.

    A decision covers a whole run with all metrics. Recorded sessions are replayed: ten in a row are
    the baseline, others in a row the run. Slowdowns with fewer than 20 sessions are left out. The
    exit code is 1 if identical code is REGRESSED in more than 1% of the decisions.
    """
    try:
        chosen = [trial for trial in TRIALS if not only or trial.name in only]
        both = [(trial.before, trial.after) for trial in chosen]
        for session in live.measure_in_turns(both, cycles, budget):
            live.append_session(path, session)
            _notes.print(f"{session.slowdown.kind} {session.slowdown.doses}: kept")
        recorded = list(group_by_trial(live.read_sessions(path)))
    except NetpipeError as error:
        raise click.ClickException(str(error)) from error
    rows = list(_rows(recorded, decisions, seed))
    for line in format_table(rows):
        click.echo(line)
    sys.exit(1 if any(row.raises_false_alarms for row in rows) else 0)


def _rows(recorded: Sequence[TrialSessions], decisions: int, seed: int) -> Iterator[Row]:
    for sessions in recorded:
        trial, now = sessions.trial, sessions.after
        if trial.is_slower and len(now) < FEWEST:
            _notes.print(f"{trial.name}: {len(now)} sessions; a row needs {FEWEST}")
            continue
        same = not trial.is_slower
        if same:
            once = list(decide_in_order(now))
            yield Row(f"{trial.name}, in the order taken", "", once, len(now), same)
        found = list(replay_decisions(sessions.before, now, decisions, seed))
        yield Row(f"{trial.name}, stored baseline", sessions.slower, found, len(now), same)


if __name__ == "__main__":
    main()
