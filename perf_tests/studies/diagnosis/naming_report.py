"""How often diagnose names the planted stage and resource: lines, a Markdown table, the goal."""

from collections.abc import Iterator, Sequence
from typing import Final

from perf_tests.studies.diagnosis.naming import Naming
from perf_tests.studies.proportions import Proportion

MIN_RIGHT_FRACTION: Final = 0.90


def format_trial(trial: Naming) -> str:
    """Return one line about a trial, and more lines if it is wrong."""
    judged = "right" if trial.is_right else "WRONG"
    line = f"{judged:6} {trial.case:28} {_describe_answer(trial)} ({trial.elapsed_s:.0f} s)"
    if trial.is_right:
        return line
    reasons = (f"must be {trial.planted}", trial.sentence, trial.why)
    return "\n       ".join([line, *filter(None, reasons)])


def meets_goal(trials: Sequence[Naming]) -> bool:
    """Return whether enough trials are correct; without trials the goal is not met."""
    right = Proportion.of([trial.is_right for trial in trials])
    return bool(trials) and right.fraction >= MIN_RIGHT_FRACTION


def format_table(trials: Sequence[Naming]) -> Iterator[str]:
    """Yield a Markdown row for each case, and the rates below them."""
    yield "| case | planted | said | right |"
    yield "|---|---|---|--:|"
    for case in dict.fromkeys(trial.case for trial in trials):
        group = [trial for trial in trials if trial.case == case]
        answers = "; ".join(dict.fromkeys(map(_describe_answer, group)))
        right = sum(trial.is_right for trial in group)
        yield f"| {case} | {group[0].planted} | {answers} | {right} of {len(group)} |"
    yield ""
    for name, successes in (
        ("stage and resource", [trial.is_right for trial in trials]),
        ("stage", [trial.is_stage for trial in trials]),
        ("resource", [trial.is_resource for trial in trials]),
    ):
        proportion = Proportion.of(successes)
        yield f"- {name}: {proportion.found} of {proportion.total}, {proportion}"


def _describe_answer(trial: Naming) -> str:
    """Return the answer without the modules of a Grain node's function."""
    kind, of, function = (trial.stage or "no stage").partition(" of ")
    return f"{kind}{of}{function.rpartition('.')[2]}: {trial.resource}"
