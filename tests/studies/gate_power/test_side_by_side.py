"""Trials of two versions side by side: their order, records and counts."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from netpipe.duets.parent import Side
from netpipe.gate.duets import Duet
from perf_tests.studies.gate_power import side_by_side
from perf_tests.studies.gate_power.side_by_side import CASES, Trial, find_missing, main
from perf_tests.studies.records import read_records
from tests.plugin.recorded import make_duet, recorded


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], list[Side[Any]]]:
    """Return a function that fakes duets with a slowdown and returns their sides."""
    sides: list[Side[Any]] = []

    def let(factor: float) -> list[Side[Any]]:
        def run(base: Side[Any], now: Side[Any]) -> Duet:
            sides.extend((base, now))
            slower = recorded(load_cpu_ratio=2.0 * factor)
            return make_duet(now.request.quantity, recorded(), slower)

        monkeypatch.setattr(side_by_side, "run_duet", run)
        return sides

    return let


def run_study(path: Path, *words: str) -> Any:
    """Run the command on a file of trials."""
    return CliRunner().invoke(main, [*words, "--trials", str(path)])


def test_every_second_trial_is_beside_a_program() -> None:
    """Cases are tried in turns, so that each sees every machine state."""
    cases = [CASES["nothing, loading"], CASES["loader CPU, 10%"]]
    missing = list(find_missing([], cases))
    assert [case.name for case, _ in missing[:4]] == [case.name for case in cases] * 2
    assert [is_busy for _, is_busy in missing[:4]] == [False, False, True, True]
    assert len(missing) == 100


def test_trials_are_kept_and_counted(
    tmp_path: Path, machine: Callable[[float], list[Side[Any]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The table has the change that was measured and how often it was found; nothing runs twice."""
    few = {"loader CPU, 2%": replace(CASES["loader CPU, 2%"], trials=8)}
    monkeypatch.setattr(side_by_side, "CASES", few)
    sides, path = machine(1.2), tmp_path / "trials.jsonl"
    result = run_study(path)
    assert result.exit_code == 0, result.output
    ((name, case),) = few.items()
    assert [trial.is_busy for trial in read_records(path, Trial)] == [False, True] * 4
    assert f"loader_cpu_{case.after.doses}" in str(sides[1].request.targets["loader"])
    (row,) = (line for line in result.output.splitlines() if line.startswith(f"| {name} |"))
    assert "1.200 x load_cpu_ratio | 4 | 100.0% (51 to 100) | 0.0% (0 to 49) | 3.0 |" in row
    assert len(sides) == 2 * 3 * 8
    assert run_study(path).stdout == result.stdout
    assert len(sides) == 2 * 3 * 8


def test_an_alarm_on_unchanged_code_fails_the_study(
    tmp_path: Path, machine: Callable[[float], list[Side[Any]]]
) -> None:
    """An alarm fails the study, even when the trials are read again."""
    machine(1.2)
    path = tmp_path / "trials.jsonl"
    assert run_study(path, "--only", "nothing, a loader that waits").exit_code == 1
    assert run_study(path, "--minutes", "0").exit_code == 1
