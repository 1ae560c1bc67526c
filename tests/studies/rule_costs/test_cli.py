"""`python -m perf_tests.studies.rule_costs`: its flags and its outputs."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from netpipe.errors import NetpipeError
from perf_tests.studies.rule_costs import __main__ as cli
from perf_tests.studies.rule_costs.catalogue import CATALOGUE
from perf_tests.studies.rule_costs.costs import Figure, RuleCosts, read_costs
from perf_tests.studies.rule_costs.document import RULES_DOCUMENT, parse_rule_sections

FIGURE = Figure(1.0, 4.0, "elements/s", rounds=((1.0, 2.0), (1.0, 4.0), (1.0, 5.0)))


def _figures(rule: str, _: Path, known: RuleCosts | None = None) -> tuple[Figure, ...]:
    if known and known.has(rule, FIGURE.unit, FIGURE.setting):
        return ()
    return (FIGURE,)


@contextmanager
def no_files() -> Iterator[Path]:
    """An unused folder."""
    yield Path("nowhere")


@pytest.fixture(autouse=True)
def _nothing_is_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give every rule one figure, and write to temporary files."""
    document = tmp_path / "rules.md"
    document.write_text(RULES_DOCUMENT.read_text(encoding="utf-8"))
    monkeypatch.setattr(cli, "make_example_files", no_files)
    monkeypatch.setattr(cli, "measure_rule", _figures)
    monkeypatch.setattr(cli, "RULES_DOCUMENT", document)
    monkeypatch.setattr(cli, "COSTS_FILE", tmp_path / "costs.json")
    monkeypatch.setattr(cli, "PACKAGED_COSTS", tmp_path / "packaged.json")


def invoke(*arguments: str) -> Result:
    """Run the command."""
    return CliRunner().invoke(cli.main, arguments)


def test_rules_are_measured_and_printed(tmp_path: Path) -> None:
    """Every line has the figure and how the ratios of the rounds spread; nothing is written."""
    result = invoke("--only", "no-*")
    assert result.exit_code == 0, result.output
    (line,) = [line for line in result.output.splitlines() if line.startswith("no-workers: ")]
    assert "1 instead of 4" in line
    assert line.endswith("0.20 to 0.50 in 3 rounds)")
    assert "large-capture" not in result.output
    assert not (tmp_path / "costs.json").exists()


def test_a_record_is_whole(tmp_path: Path) -> None:
    """A record has every rule and the machine, and is copied into the document."""
    result = invoke("--record")
    assert result.exit_code == 0, result.output
    written = read_costs(tmp_path / "costs.json")
    assert set(written.rules) == set(CATALOGUE)
    assert {"python", "grain", "jax", "numpy"} == set(written.versions)
    assert written.command == "python -m perf_tests.studies.rule_costs --record"
    document = parse_rule_sections((tmp_path / "rules.md").read_text(encoding="utf-8"))
    assert all(document[rule].cost == written.describe_figures(rule) for rule in CATALOGUE)
    packaged = json.loads((tmp_path / "packaged.json").read_text())
    assert packaged == {rule: written.describe(rule) for rule in CATALOGUE}
    files = {"rules.md", "costs.json", "packaged.json"}
    assert {file.name for file in tmp_path.iterdir()} == files


def drop(rule: str, costs: Path, **changes: object) -> None:
    """Remove rules from the recorded figures."""
    recorded = json.loads(costs.read_text())
    del recorded["rules"][rule]
    costs.write_text(json.dumps({**recorded, **changes}))


def test_only_missing_figures_are_measured(tmp_path: Path) -> None:
    """The others stay, and the record says which ones came later."""
    invoke("--record")
    costs = tmp_path / "costs.json"
    drop("no-workers", costs, date="2025-11-21T20:00:00+00:00")
    (tmp_path / "rules.md").write_text("Costs: of another day.")
    result = invoke("--record")
    assert [line.partition(":")[0] for line in result.output.splitlines()] == ["no-workers"]
    written = read_costs(costs)
    assert set(written.rules) == set(CATALOGUE)
    assert written.date == "2025-11-21T20:00:00+00:00"
    assert set(written.later) == {"no-workers"}
    assert (tmp_path / "rules.md").read_text() == f"Costs: {written.origin}."


def test_missing_figures_of_another_machine_are_refused(tmp_path: Path) -> None:
    """Figures of two machines would be mixed; nothing is written."""
    invoke("--record")
    costs = tmp_path / "costs.json"
    drop("no-workers", costs, versions={"grain": "0.2.17"})
    before = costs.read_text()
    result = invoke("--record")
    assert result.exit_code == 1
    assert "found" in result.output
    assert "0.2.17" in result.output
    assert costs.read_text() == before


def test_a_failed_measurement_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half a record would mix two machines."""

    def fail(rule: str, folder: Path, *_: object) -> tuple[Figure, ...]:
        raise NetpipeError(f"{rule} took too long in {folder}")

    monkeypatch.setattr(cli, "measure_rule", fail)
    result = invoke("--record")
    assert result.exit_code == 1
    assert result.output.startswith("Error: batch-after-mp-prefetch took")
    assert [file.name for file in tmp_path.iterdir()] == ["rules.md"]
