"""The README shows what a run prints."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from rich.console import Console
from rich.table import Table

from netpipe.gate.baseline import load
from netpipe.gate.comparison import BaselineSessions, compare
from netpipe.plugin.acceptance import Acceptance
from netpipe.plugin.gate_results import GateResult
from netpipe.plugin.summary import comparison_tables
from netpipe.verdict.report import verdict_table
from tests.root_process import ROOT

# Recorded by `pytest perf_tests/test_loading.py perf_tests/test_training.py --netpipe-record readme
# --netpipe-sessions 3`, and kept apart from the baselines, which more sessions record.
KEPT = Path("tests", "plugin", "0001_readme.json")
README = (ROOT / "README.md").read_text(encoding="utf-8")
QUANTITIES = {
    "perf_tests/test_loading.py::test_load_time": "load_s_per_batch",
    "perf_tests/test_training.py::test_step_time": "step_s",
    "perf_tests/test_training.py::test_training_step_time": "train_s_per_step",
}


def test_the_readme_shows_the_verdicts() -> None:
    """A recorded session gives the README's table of verdicts."""
    sessions = next(iter(load(ROOT / KEPT).sessions.values()))
    assert printed(verdict_table(sessions[:1])) in README


def test_the_readme_shows_the_comparison() -> None:
    """A recorded session, compared with all of them, gives the README's table."""
    kept = load(ROOT / KEPT)
    compared = []
    for name, quantity in QUANTITIES.items():
        then = kept.sessions[name]
        found = compare(quantity, then[:1], BaselineSessions(kept.name, then))
        compared += [GateResult(name, quantity, metric, then[0]) for metric in found.metrics]
    run = cast(Any, SimpleNamespace(results=compared, acceptance=Acceptance()))
    (table,) = comparison_tables(run)
    assert printed(table) in README


def printed(table: Table) -> str:
    """Return a table as a terminal 118 columns wide shows it."""
    console = Console(width=118, color_system=None)
    with console.capture() as captured:
        console.print(table)
    return "\n".join(line.rstrip() for line in captured.get().rstrip().splitlines())
