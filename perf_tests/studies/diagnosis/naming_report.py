"""How often diagnose names what was planted: lines, a table in Markdown, the goal."""

from collections.abc import Iterator, Sequence
from typing import Final

from perf_tests.studies.diagnosis.naming import Naming
from perf_tests.studies.gate_power.rates import Share

LEAST_RIGHT_FRACTION: Final = 0.90


def line(trial: Naming) -> str:
    """Return one line about a trial, and more where it is not right."""
    shown = "right" if trial.is_right else "WRONG"
    said = f"{shown:6} {trial.case:28} {_said(trial)} ({trial.elapsed_s:.0f} s)"
    if trial.is_right:
        return said
    reasons = (f"must be {trial.planted}", trial.sentence, trial.why)
    return "\n       ".join([said, *filter(None, reasons)])


def right(trials: Sequence[Naming]) -> Share:
    """Return how many named both the stage and the resource."""
    return _share([trial.is_right for trial in trials])


def meets_goal(trials: Sequence[Naming]) -> bool:
    """Whether enough are right; nothing tried shows nothing."""
    return bool(trials) and right(trials).fraction >= LEAST_RIGHT_FRACTION


def table(trials: Sequence[Naming]) -> Iterator[str]:
    """Write a row for each case in Markdown, and the rates below them."""
    yield "| case | planted | said | right |"
    yield "|---|---|---|--:|"
    for case in dict.fromkeys(trial.case for trial in trials):
        yield _row([trial for trial in trials if trial.case == case])
    yield ""
    yield f"- stage and resource: {_counted(right(trials))}"
    yield f"- stage: {_counted(_share([trial.is_stage for trial in trials]))}"
    yield f"- resource: {_counted(_share([trial.is_resource for trial in trials]))}"


def _row(trials: Sequence[Naming]) -> str:
    said = "; ".join(dict.fromkeys(_said(trial) for trial in trials))
    share = right(trials)
    return f"| {trials[0].case} | {trials[0].planted} | {said} | {share.found} of {len(trials)} |"


def _said(trial: Naming) -> str:
    stage = _short(trial.stage) if trial.stage else "no stage"
    return f"{stage}: {trial.resource}"


def _short(stage: str) -> str:
    """Leave out the modules of a Grain node's function."""
    kind, of, function = stage.partition(" of ")
    return f"{kind}{of}{function.rpartition('.')[2]}"


def _share(rights: Sequence[bool]) -> Share:
    return Share(sum(rights), len(rights), len(rights))


def _counted(share: Share) -> str:
    return f"{share.found} of {share.decisions}, {share}"
