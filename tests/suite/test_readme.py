"""What the README shows of the gate is what it says."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from rich.console import Console

from netpipe.gate.baseline import load
from netpipe.gate.comparison import BaselineSessions, compare
from netpipe.suite.gate_results import GateResult
from netpipe.suite.summary import comparison_tables
from tests.root_process import ROOT

KEPT = Path("baselines", "cpu-intel-xeon-2", "0002_packed.json")
QUANTITIES = {
    "perf_tests/test_loading.py::test_load_time": "load_s_per_batch",
    "perf_tests/test_training.py::test_step_time": "step_s",
    "perf_tests/test_training.py::test_training_step_time": "train_s_per_step",
}


def test_the_comparison_is_the_readmes() -> None:
    """A session of the committed baseline, held against that baseline, gives the README's table."""
    kept = load(ROOT / KEPT)
    compared = []
    for name, quantity in QUANTITIES.items():
        then = kept.sessions[name]
        found = compare(quantity, then[:1], BaselineSessions(kept.name, then))
        compared += [GateResult(name, quantity, one, then[0]) for one in found.by_metric]
    run = cast(Any, SimpleNamespace(compared=compared))
    (table,) = comparison_tables(run)
    console = Console(width=118, color_system=None)
    with console.capture() as captured:
        console.print(table)
    lines = "\n".join(line.rstrip() for line in captured.get().rstrip().splitlines())
    assert lines in (ROOT / "README.md").read_text(encoding="utf-8")
