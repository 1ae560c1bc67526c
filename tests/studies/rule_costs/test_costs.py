"""The costs of rules, in words and from the file."""

import json
import re
from dataclasses import asdict

import pytest

from perf_tests.studies.rule_costs.__main__ import COSTS_FILE
from perf_tests.studies.rule_costs.costs import Figure, read_costs


@pytest.mark.parametrize(
    ("rounds", "differs"),
    [
        (((1.0, 2.0), (3.0, 4.0)), False),
        (((2.0, 1.0), (3.0, 2.0)), False),
        (((1.0, 3.0), (2.0, 4.0)), True),
        (((3.0, 1.0), (4.0, 2.0)), True),
        ((), True),
    ],
)
def test_only_rounds_apart_show_a_difference(
    rounds: tuple[tuple[float, float], ...], differs: bool
) -> None:
    """All values of one pipeline must lie below all values of the other."""
    assert Figure(2188.4, 4779.2, "elements/s", rounds=rounds).differs is differs


def test_a_finding_has_one_figure_that_a_stranger_understands() -> None:
    """The machine, the setting and further figures are on the page of the rules."""
    costs = read_costs(COSTS_FILE)
    assert len(costs.rules["threads-in-workers"]) == 3
    cost = costs.describe("threads-in-workers")
    assert re.fullmatch(r"in an example: [\d,.]+ instead of [\d,.]+ elements/s", cost)
    assert not costs.describe("no-such-rule")


def test_the_recorded_figures_are_readable() -> None:
    """Every figure is read as it stands in the file."""
    recorded = json.loads(COSTS_FILE.read_text())
    assert json.loads(json.dumps(asdict(read_costs(COSTS_FILE))["rules"])) == recorded["rules"]
