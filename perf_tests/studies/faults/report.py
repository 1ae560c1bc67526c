"""The report of a run of the catalogue: lines, tables and a JSON document."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

import cattrs

from netpipe.errors import InputError
from netpipe.results.units import format_percent
from perf_tests.studies.faults.matrix import (
    MAX_INCONCLUSIVE_FRACTION,
    MIN_NAMED_FRACTION,
    Rates,
    Result,
    build_confusion,
    classify,
    count_rates,
)
from perf_tests.studies.faults.trials import Trial

SCHEMA: Final = "netpipe.faults/1"


def format_trial(trial: Trial) -> str:
    """Return one line about a trial, and more if it took two sessions or was wrong."""
    values = " ".join(f"{name}={value:g}" for name, value in trial.values.items())
    shown = classify(trial).value
    lines = [f"{shown:14} {trial.case:32} {trial.called:20} {trial.elapsed_s:5.1f} s  {values}"]
    if trial.first_message:
        lines.append(f"first {trial.first_message}")
    if classify(trial) is not Result.RIGHT:
        expected = f"{trial.expected} of {trial.names}" if trial.names else trial.expected
        lines.append(f"expected {expected}; found {trial.message}")
        lines += [f"{name}: {message}" for name, message in trial.findings.items()]
    return f"\n{'':15}".join(lines)


def format_matrix(trials: Sequence[Trial]) -> str:
    """Return the confusion matrix, expected by called, as a table in Markdown."""
    heading, *rows = build_confusion(trials)
    ruler = ["---", *("--:" for _ in heading[1:])]
    return "\n".join(f"| {' | '.join(row)} |" for row in (heading, ruler, *rows))


def format_rates(counted: Rates) -> Iterable[str]:
    """Return the rates with their goals."""
    decided = counted.faults - counted.inconclusive_faults
    trials = counted.faults + counted.controls
    most_open = format_percent(MAX_INCONCLUSIVE_FRACTION)
    yield (
        f"faults named right: {counted.named} of {decided} decided "
        f"(at least {format_percent(MIN_NAMED_FRACTION)}), of {counted.faults} in all"
    )
    yield f"faults called fine: {counted.missed} of {counted.faults} (none)"
    yield f"controls blamed: {counted.blamed} of {counted.controls} (none)"
    yield (
        f"inconclusive after a second session: {counted.inconclusive} of {trials}, "
        f"{format_percent(counted.inconclusive_fraction)} (at most {most_open}); "
        f"second sessions: {counted.twice}"
    )


def build_document(trials: Sequence[Trial], *, budget_s: float, busy: bool) -> dict[str, Any]:
    """Return a run as plain JSON values."""
    counted = count_rates(trials)
    return {
        "schema": SCHEMA,
        "budget_s": budget_s,
        "busy": busy,
        "rates": {
            **asdict(counted),
            "named_fraction": counted.named_fraction,
            "inconclusive_fraction": counted.inconclusive_fraction,
            "meets_goals": counted.meets_goals,
        },
        "trials": [{**asdict(trial), "result": classify(trial).value} for trial in trials],
    }


def parse_trials(found: Mapping[str, Any], where: object) -> list[Trial]:
    """Read the trials of a run's JSON document.

    Raises:
        InputError: The file, `where`, holds no such document.
    """
    if found.get("schema") != SCHEMA:
        raise InputError(where, "schema", f"be {SCHEMA}", repr(found.get("schema")))
    return cattrs.structure(found["trials"], list[Trial])
