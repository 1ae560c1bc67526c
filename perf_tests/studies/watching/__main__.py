"""`python -m perf_tests.studies.watching`: watch trainings with planted faults."""

import sys
import time
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from math import inf
from pathlib import Path
from typing import Final

import click

from perf_tests.studies.options import exit_on_signals
from perf_tests.studies.proportions import Proportion
from perf_tests.studies.records import append_record, read_records
from perf_tests.studies.watching.trials import QUESTIONS, Trial, run

_KEPT: Final = Path(__file__).with_name("trials.jsonl")


def format_table(trials: Sequence[Trial]) -> Iterator[str]:
    """Format as Markdown the numbers of right, open and wrong answers to each question."""
    yield "| question | trials | right of the decided | inconclusive | wrong |"
    yield "|---|--:|---|--:|---|"
    for question in QUESTIONS:
        asked = [trial for trial in trials if trial.question == question]
        decided = [not trial.problems for trial in asked if not trial.is_open]
        wrong = (f"{each.case}: {'; '.join(each.problems)}" for each in asked if each.problems)
        right = f"{sum(decided)} of {len(decided)}, {Proportion.of(decided)}" if asked else "-"
        undecided = len(asked) - len(decided)
        yield f"| {question} | {len(asked)} | {right} | {undecided} | {', '.join(wrong)} |"


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--ask", "questions", multiple=True, type=click.Choice(tuple(QUESTIONS)),
    help="Only this question. May be repeated.",
)  # fmt: skip
@click.option("--only", default="*", metavar="GLOB", help="Only cases whose name matches.")
@click.option("--first", default=1, show_default=True, help="The first seed.")
@click.option(
    "--minutes", type=click.FloatRange(min=0), default=inf,
    help="Minutes after which no trial begins.",
)  # fmt: skip
@click.option(
    "--trials", "path", type=click.Path(dir_okay=False, path_type=Path),
    default=_KEPT, show_default=True, help="The file of trials.",
)  # fmt: skip
def main(questions: tuple[str, ...], only: str, first: int, minutes: float, path: Path) -> None:
    """Watch trainings, and compare the verdicts with the planted faults.

    Each trial is kept in a file as soon as it is done; those that the file holds are not repeated.
    --minutes 0 runs nothing and prints the table. The exit code is 1 if an answer was wrong.
    """
    exit_on_signals()
    done, ends_s = read_records(path, Trial), time.monotonic() + 60 * minutes
    known = {(trial.question, trial.case, trial.seed) for trial in done}
    for name in questions or tuple(QUESTIONS):
        question = QUESTIONS[name]
        cases = [case for case in question.cases if fnmatchcase(case.name, only)]
        for seed in range(first, first + question.seeds):
            for case in cases:
                if (name, case.name, seed) in known or time.monotonic() >= ends_s:
                    continue
                trial = run(name, case, seed)
                append_record(path, trial)
                done.append(trial)
                answer = "; ".join(trial.problems) or trial.called or "right"
                click.echo(f"{name}, {case.name}, seed {seed}: {answer}", err=True)
    for line in format_table(done):
        click.echo(line)
    sys.exit(1 if any(trial.problems for trial in done) else 0)


if __name__ == "__main__":
    main()
