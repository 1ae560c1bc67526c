"""Trials: the wrong and the right example in turns, each time in a fresh process."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Final

import numpy as np

from netpipe.errors import NetpipeError
from netpipe.files.temporary_folders import temporary_folder
from netpipe.measuring.interleaving import interleave
from perf_tests.studies.children import ChildError, run_for_json
from perf_tests.studies.rule_costs.catalogue import CATALOGUE, Quantity, Trial
from perf_tests.studies.rule_costs.costs import Figure, RuleCosts
from perf_tests.studies.rule_costs.document import ROOT, Form
from perf_tests.studies.rule_costs.measures import Observation

ROUNDS: Final = 3
# The file that examples of docs/rules.md read: 200 MB of float32.
TABLE: Final = "table.npy"
TABLE_ROWS: Final = 50_000_000
_LIMIT_S: Final = 60.0
_CHILD: Final = "perf_tests.studies.rule_costs.child"

Observe = Callable[[Form], Observation]


class TrialError(NetpipeError):
    """An observation that failed or took too long."""


def measure_rule(rule: str, folder: Path, known: RuleCosts | None = None) -> tuple[Figure, ...]:
    """Measure the cost of breaking a rule, in the folder of the files that its examples read.

    Known quantities are left out.

    Raises:
        TrialError: An example failed that should run, or took too long.
    """
    figures: list[Figure] = []
    for number, trial in enumerate(CATALOGUE[rule]):
        if known and all(known.has(rule, each.unit, each.setting) for each in trial.quantities):
            continue

        def observe(form: Form, number: int = number) -> Observation:
            return _observe((rule, form, str(number)), folder)

        figures.extend(measure_in_turns(trial, observe))
    return tuple(figures)


def measure_in_turns(trial: Trial, observe: Observe, rounds: int = ROUNDS) -> Iterator[Figure]:
    """Observe the wrong example and the right one in turns; yield a figure for each quantity.

    Raises:
        TrialError: The right example raised an exception.
    """
    rounds = rounds if trial.varies else 1
    forms: tuple[Form, ...] = ("wrong", "right")
    done = interleave(forms, observe, lambda done: len(done.rounds) < rounds)
    seen = [(observed["wrong"], observed["right"]) for observed in done.rounds]
    for _, right in seen:
        if right.error:
            raise TrialError(f"the right example raised {right.error}")
    for quantity in trial.quantities:
        yield _figure(quantity, seen)


def _figure(quantity: Quantity, seen: Sequence[tuple[Observation, Observation]]) -> Figure:
    pairs = [(_value(wrong, quantity), _value(right, quantity)) for wrong, right in seen]
    return Figure(
        wrong=median(wrong for wrong, _ in pairs),
        right=median(right for _, right in pairs),
        unit=quantity.unit,
        setting=quantity.setting,
        error=seen[0][0].error,
        rounds=tuple(pairs),
    )


def _value(observation: Observation, quantity: Quantity) -> float:
    return observation.values[quantity.name] / quantity.size


@contextmanager
def make_example_files() -> Iterator[Path]:
    """Make a folder with the file that the examples read."""
    with temporary_folder("rulecosts") as folder:
        # Written, not sparse: pages that were never written would take no memory when read.
        np.save(folder / TABLE, np.ones(TABLE_ROWS, np.float32))
        yield folder


def _observe(arguments: Sequence[str], folder: Path) -> Observation:
    """Run one observation in its own process; end it if it takes too long."""
    paths = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    try:
        printed = run_for_json(["-m", _CHILD, *arguments], {"PYTHONPATH": paths}, _LIMIT_S, folder)
    except ChildError as error:
        raise TrialError(f"{' '.join(arguments)}: {error}") from error
    return Observation(**printed)
