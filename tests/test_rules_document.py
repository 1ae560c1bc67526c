"""The examples of docs/rules.md are linted; its severities and costs are those of the code."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from absl import flags
from absl.testing import flagsaver

from netpipe.grain_access.source_lines import record_source_lines
from netpipe.grain_access.worker_start import make_unpermitted
from netpipe.linting.lint_request import INTENTS
from netpipe.linting.linter import LintReport, lint, load_costs
from netpipe.linting.reads import find_reads
from netpipe.linting.rules import RULE_NAMES
from netpipe.linting.settings import read_lint_settings
from perf_tests.studies.rule_costs.__main__ import COSTS_FILE
from perf_tests.studies.rule_costs.catalogue import CATALOGUE
from perf_tests.studies.rule_costs.costs import read_costs
from perf_tests.studies.rule_costs.document import (
    RULES_DOCUMENT,
    SILENCING,
    Form,
    parse_rule_sections,
    parse_sections,
    replace_costs,
)
from perf_tests.studies.rule_costs.examples import load_example
from tests.root_process import ROOT

COSTS = read_costs(COSTS_FILE)
TEXT = RULES_DOCUMENT.read_text(encoding="utf-8")
SECTIONS = parse_rule_sections(TEXT)
IN_PYTHON = [
    rule for rule, section in SECTIONS.items() if section.block("wrong").language == "python"
]
# Findings of one rule cost nothing, and findings of the others state their cost.
WITHOUT_COST = {"no-grain-graph", "buffers-exceed-memory", "unparsed-flags"}


@pytest.fixture(autouse=True)
def _beside_the_files_of_the_examples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run beside `table.npy`, a sparse file of 200 MB."""
    np.lib.format.open_memmap(
        tmp_path / "table.npy", mode="w+", dtype=np.float32, shape=(50_000_000,)
    )
    monkeypatch.chdir(tmp_path)


@pytest.fixture(autouse=True)
def _unparsed_flags(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Undo what other tests did to absl's flags."""
    monkeypatch.delitem(sys.modules, "absl.app", raising=False)
    with flagsaver.flagsaver():
        flags.FLAGS.unparse_flags()
        yield
    flags.FLAGS.mark_as_parsed()


def linted(rule: str, form: Form, intent: str, silences: Any = None) -> LintReport:
    """Lint one of a rule's examples with its factory's declarations."""
    loader = load_example(rule, form).loader()
    with record_source_lines() as recording:
        dataset, lacks_flags = make_unpermitted(loader)
    return lint(
        dataset, intent, lacks_flags=lacks_flags, recording=recording,
        silences=silences or {}, reads=find_reads(loader, dataset),
    )  # fmt: skip


def severities(report: LintReport, rule: str) -> set[str]:
    """Return the severities of a rule's findings."""
    return {finding.severity for finding in report.findings if finding.rule == rule}


def worst_intent(rule: str) -> str:
    """The intent under which a rule is most severe; throughput where both are alike."""
    order = ("error", "warning", "info")
    return min(INTENTS, key=lambda intent: order.index(SECTIONS[rule].severities[intent]))


def test_every_rule_has_a_section_and_every_section_is_a_rule() -> None:
    """The document has all rules, and no others."""
    assert set(SECTIONS) == set(RULE_NAMES)


@pytest.mark.parametrize("intent", INTENTS)
@pytest.mark.parametrize("rule", IN_PYTHON)
def test_the_wrong_example_breaks_the_rule(rule: str, intent: str) -> None:
    """The finding is as severe as the section says."""
    report = linted(rule, "wrong", intent)
    assert severities(report, rule) == {SECTIONS[rule].severities[intent]}


@pytest.mark.parametrize("intent", INTENTS)
@pytest.mark.parametrize("rule", IN_PYTHON)
def test_the_right_example_does_not_break_the_rule(rule: str, intent: str) -> None:
    """For the worst intent of the rule, the recommended code has no other error either."""
    report = linted(rule, "right", intent)
    assert severities(report, rule) == set()
    errors = [finding.rule for finding in report.findings if finding.severity == "error"]
    assert intent != worst_intent(rule) or errors == []


@pytest.mark.parametrize("rule", sorted(set(IN_PYTHON) - {"no-grain-graph"}))
def test_a_finding_names_a_line_of_the_document(rule: str) -> None:
    """Examples have the lines of the document, so that a failing one can be found."""
    origins = [node.made_at for node in linted(rule, "wrong", "throughput").graph.nodes]
    lines = {int(origin.rpartition(":")[2]) for origin in origins if "rules.md" in origin}
    block = SECTIONS[rule].block("wrong")
    assert lines & set(range(block.line, block.line + block.code.count("\n")))


def test_silencing_works_as_the_document_says(tmp_path: Path) -> None:
    """The configuration of the example silences its rule, and has its intent and reason."""
    (block,) = parse_sections(TEXT)[SILENCING].blocks
    (tmp_path / "pyproject.toml").write_text(block.code)
    settings = read_lint_settings(tmp_path)
    assert settings.intent == "reproducible"
    ((rule, reason), (of_one, _)) = settings.silences.items()
    assert of_one.partition(" of ")[0] == "map-after-mp-prefetch"
    report = linted(rule, "wrong", settings.intent, settings.silences)
    assert severities(report, rule) == set()
    assert reason in repr(report.silenced)


def test_every_rule_but_three_is_measured() -> None:
    """A rule without a cost costs nothing, or has the cost in its findings."""
    assert set(CATALOGUE) == set(SECTIONS) - WITHOUT_COST
    assert {rule for rule, section in SECTIONS.items() if section.cost is None} == WITHOUT_COST


@pytest.mark.parametrize("rule", CATALOGUE)
def test_the_cost_is_the_measured_one(rule: str) -> None:
    """The page has the figures of the findings; `rule_costs --record` writes them."""
    assert SECTIONS[rule].cost == COSTS.describe_figures(rule) != ""
    assert COSTS.describe(rule) == load_costs()[rule]


def test_the_costs_are_those_of_a_supported_grain() -> None:
    """The page has the release and the machine of the figures, and tox tests this release."""
    assert f"\nCosts: {COSTS.origin}.\n" in TEXT
    measured = COSTS.versions["grain"]
    assert f"grain{measured}: grain=={measured}\n" in (ROOT / "tox.ini").read_text()


def test_only_cost_lines_are_renewed() -> None:
    """Renewing the costs changes nothing else, and does so in the right section."""
    renewed = replace_costs(TEXT, lambda rule: f"dear {rule}", COSTS.origin)
    assert parse_rule_sections(renewed)["no-workers"].cost == "dear no-workers"
    assert re.sub(r"(?m)^Cost: .*$", "", renewed) == re.sub(r"(?m)^Cost: .*$", "", TEXT)
