"""Tables in a terminal, which may be narrow."""

import re
from collections import Counter

import pytest
from rich.console import Console
from rich.table import Table

from netpipe.reporting import diagnosis_tables
from netpipe.reporting.measurement_table import verdict_table
from netpipe.results.start_up import StartUp
from tests.measurements import make_measurement
from tests.reporting import examples

_FINDINGS = examples.findings("my_project.input_pipeline.decode_and_augment_images")


def print_at(width: int, table: Table) -> str:
    """Return the table as a terminal of this width shows it."""
    console = Console(width=width, color_system=None, markup=False)
    with console.capture() as captured:
        console.print(table)
    return captured.get()


@pytest.mark.parametrize("width", [60, 80, 100])
@pytest.mark.parametrize(
    "table",
    [
        verdict_table([make_measurement()]),
        diagnosis_tables.build_stage_table(_FINDINGS).for_terminal(),
        diagnosis_tables.build_intervention_table(_FINDINGS.interventions).for_terminal(),
        diagnosis_tables.build_prediction_table(_FINDINGS.what_if).for_terminal(),
    ],
    ids=["verdicts", "stages", "interventions", "predictions"],
)
def test_no_word_is_cut(table: Table, width: int) -> None:
    """Cells wrap between words and the parts of a name, but not between a number and its unit."""
    text = print_at(width, table)
    assert max(map(len, text.splitlines())) <= width
    cells = " ".join(str(cell) for column in table.columns for cell in column.cells if cell)
    whole = re.compile(r"\d[\d.]* m?s\b|\w+")
    assert Counter(whole.findall(text)) >= Counter(whole.findall(cells))


def test_a_table_that_is_too_wide_becomes_lists() -> None:
    """Each row is a list of headings and values then, without the empty ones."""
    table = diagnosis_tables.build_stage_table(_FINDINGS).for_terminal()
    assert "─" in print_at(100, table)
    *_, last = print_at(60, table).strip().split("\n\n")
    assert last.split("\n") == [
        "  stage: source Probes", "  share: 29.0%", "  time: 22 ms, sampled", "  CPU time: 4 ms",
        "  runs in: trainer",
    ]  # fmt: skip


def test_a_start_up_of_no_time_has_a_table() -> None:
    """Only a file made by hand has one."""
    table = diagnosis_tables.build_start_up_table(StartUp(making_s=0.0, rest_s=0.0))
    assert {row["share"].text for row in table.rows} == {"", "0.0%"}
