"""The costs of rules, in words and from the file."""

import json
import re
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from netpipe.results.measurement import Host
from perf_tests.studies.rule_costs.__main__ import COSTS_FILE
from perf_tests.studies.rule_costs.costs import Figure, RuleCosts, read_costs

SPEED = Figure(2188.4, 4779.2, "elements/s", "at batches of 32", "", ((2188.4, 4779.2),))
COSTS = RuleCosts(
    date="2025-11-21T20:00:00+00:00",
    commit="0123456789ab",
    command="python -m perf_tests.studies.rule_costs --record",
    host=Host("Intel(R) Xeon(R) Platinum 8481C CPU @ 2.70GHz", 2, 2**34),
    versions={"python": "3.11.7", "grain": "0.2.18", "jax": "0.10.2", "numpy": "2.3.5"},
    rules={"no-workers": (SPEED,)},
)


def test_a_figure_says_both_numbers_to_three_digits() -> None:
    """Both numbers have three significant digits."""
    assert str(SPEED) == "2,190 instead of 4,780 elements/s at batches of 32"
    assert str(replace(SPEED, wrong=0.0512, right=32.0)).startswith("0.0512 instead of 32 ")


@pytest.mark.parametrize("rounds", [((1.0, 2.0), (3.0, 4.0)), ((2.0, 1.0), (3.0, 2.0))])
def test_rounds_that_overlap_show_no_difference(rounds: tuple[tuple[float, float], ...]) -> None:
    """If the rounds overlap, no difference is reported."""
    unclear = replace(SPEED, rounds=rounds)
    assert not unclear.differs
    assert re.fullmatch("2,190 and 4,780 elements/s .*without a clear difference", str(unclear))


@pytest.mark.parametrize("rounds", [((1.0, 3.0), (2.0, 4.0)), ((3.0, 1.0), (4.0, 2.0)), ()])
def test_rounds_apart_show_a_difference(rounds: tuple[tuple[float, float], ...]) -> None:
    """All values of one pipeline lie below all values of the other; a single round counts."""
    figure = replace(SPEED, rounds=rounds)
    assert figure.differs
    assert "2,190 instead of 4,780" in str(figure)


def test_the_figure_of_a_crash_names_the_exception() -> None:
    """The figure of a crash has the exception."""
    crash = Figure(0, 5, "batches", error="TypeError: cannot pickle 'Device' object")
    assert str(crash).endswith(f" {crash.error}")
    assert "0" not in str(crash)


def test_a_sentence_says_where_it_was_measured() -> None:
    """The version of Grain, the number of cores and the CPU come after the figures."""
    environment = r"Grain 0\.2\.18 on 2 cores, Intel Xeon Platinum 8481C"
    assert re.fullmatch(
        rf"{re.escape(str(SPEED))} \(.*{environment}\)", COSTS.describe("no-workers")
    )


def test_several_figures_are_one_sentence() -> None:
    """They share the environment in which they were measured."""
    in_seconds = replace(SPEED, unit="s")
    twice = replace(COSTS, rules={"no-workers": (SPEED, in_seconds)})
    description = twice.describe("no-workers")
    assert description.startswith(f"{SPEED}; {in_seconds} ")
    assert description.count("Grain 0.2.18") == 1


@pytest.mark.parametrize("rules", [{}, {"other": (SPEED,)}, {"no-workers": ()}])
def test_a_rule_without_figures_has_no_cost(rules: dict[str, tuple[Figure, ...]]) -> None:
    """The description is empty."""
    assert replace(COSTS, rules=rules).describe("no-workers") == ""


def test_the_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    """The file is read as it was written."""
    file = tmp_path / "costs.json"
    file.write_text(json.dumps(asdict(COSTS)))
    assert read_costs(file) == COSTS


def test_the_recorded_figures_are_readable() -> None:
    """Every figure is read as it stands in the file."""
    recorded = json.loads(COSTS_FILE.read_text())
    assert json.loads(json.dumps(asdict(read_costs(COSTS_FILE))["rules"])) == recorded["rules"]
