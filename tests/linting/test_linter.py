"""The report on a pipeline: all rules in their order, silences, and its way as JSON."""

import json
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import grain
import jsonschema
import pytest

import netpipe
from netpipe.errors import InputError, MisuseError
from netpipe.linting import linter
from netpipe.linting.linter import LintReport, lint, parse_report
from netpipe.linting.rules import RULE_NAMES, RULES
from tests.linting.rules.linting import built, elements, in_workers, increment, source

BATCH = "batch-after-mp-prefetch"
MAP = "map-after-mp-prefetch"
ORDER = "worker-count-changes-order"
NESTED = "nested-mp-prefetch"

WRONG_IN_MANY_WAYS = [
    in_workers(in_workers(elements()).batch(4)).map(increment),
    in_workers(source().repeat().shuffle(seed=1).batch(4).to_iter_dataset(), 3),
    grain.IterDataset.mix([elements().batch(4), elements().batch(4)], [2, 1]).filter(increment),
    iter(()),
]


@pytest.fixture(autouse=True)
def _costs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the cost of a rule be its name: the figures are measured anew now and then."""
    monkeypatch.setattr(linter, "describe_cost", lambda rule: f"the cost of {rule}")


@pytest.mark.parametrize("dataset", WRONG_IN_MANY_WAYS[:-1])
def test_every_finding_is_of_the_rule_that_is_listed(dataset: Any) -> None:
    """The rules' own names are those of the list, and they come in its order."""
    rules = [finding.rule for finding in lint(dataset).findings]
    assert rules == sorted(rules, key=RULE_NAMES.index) != []


def test_the_rules_of_the_interface_are_there() -> None:
    """None is missing, and functions are called like their rules."""
    assert len(RULES) == 18
    assert all(rule.__name__.replace("_", "-") == name for name, rule in RULES.items())
    assert tuple(RULES) == RULE_NAMES[:-1]


def test_every_finding_has_its_cost() -> None:
    """It is looked up by the rule's name."""
    findings = lint(WRONG_IN_MANY_WAYS[0]).findings
    assert all(finding.cost == f"the cost of {finding.rule}" for finding in findings)


def test_errors_are_those_of_the_findings() -> None:
    """Warnings and remarks are none, and neither is what is silenced."""
    late = in_workers(elements()).batch(4)
    assert [finding.rule for finding in lint(late).errors] == [BATCH]
    assert lint(late, "reproducible").errors == ()
    assert lint(late, silences={BATCH: "meant"}).errors == ()


def test_nothing_is_read() -> None:
    """The source of these pipelines fails a test that reads it."""
    for dataset in WRONG_IN_MANY_WAYS:
        lint(dataset)


def test_a_loader_that_is_not_grains_has_a_remark_and_no_graph() -> None:
    """A generator is no error: the report says that there is nothing to read."""
    report = lint(batch for batch in range(3))
    (finding,) = report.findings
    assert (finding.rule, finding.severity, finding.nodes) == ("no-grain-graph", "info", ())
    assert "builtins.generator" in finding.message
    assert report.graph.nodes == ()


def test_an_unknown_intent_is_misuse() -> None:
    """The intents that exist are named."""
    with pytest.raises(MisuseError, match=r"one of throughput, reproducible\. Found: 'speed'"):
        lint(elements(), "speed")


# ---- Silences


def test_a_silenced_finding_is_set_aside_with_its_reason() -> None:
    """It keeps all that it says, and the others are heard."""
    late = in_workers(in_workers(elements())).batch(4)
    report = lint(late, silences={BATCH: "few batches"})
    (silenced,) = report.silenced
    assert (silenced.finding.rule, silenced.reason) == (BATCH, "few batches")
    assert silenced.finding in lint(late).findings
    assert [finding.rule for finding in report.findings] == [NESTED]


def test_a_rule_can_be_silenced_for_one_function() -> None:
    """What it says of that one is set aside, and what comes after it is heard."""
    function = "tests.linting.rules.linting.increment"
    silences = {f"{MAP} of {function}": "it is cheap"}
    alone = lint(in_workers(elements()).map(increment), silences=silences)
    assert alone.findings == ()
    assert [(one.finding.rule, one.reason) for one in alone.silenced] == [(MAP, "it is cheap")]
    more = lint(in_workers(elements()).map(increment).map(dict), silences=silences)
    assert [finding.rule for finding in more.findings] == [MAP]
    assert "Map of builtins.dict comes after" in more.findings[0].message
    assert [one.finding.rule for one in more.silenced] == [MAP]


def test_a_silence_for_one_function_is_unused_only_where_the_function_is() -> None:
    """A project has one list of silences, and several pipelines."""
    silences = {f"{MAP} of tests.linting.rules.linting.increment": "it is cheap"}
    assert lint(in_workers(elements()), silences=silences).findings == ()
    kept = lint(in_workers(source().map(increment).to_iter_dataset()), silences=silences)
    assert "unused-silence" in [finding.rule for finding in kept.findings]


def test_a_silence_of_what_is_kept_is_reported() -> None:
    """With the reason that was given, so that its author knows which it was."""
    report = lint(source(), silences={NESTED: "an old reason"})
    (finding,) = report.findings
    assert (finding.rule, finding.severity, finding.nodes) == ("unused-silence", "warning", ())
    assert NESTED in finding.message
    assert "an old reason" in finding.message
    assert report.silenced == ()


def test_a_silence_is_not_unused_where_nothing_was_judged() -> None:
    """A loader that is not Grain's keeps no rule and breaks none."""
    assert [one.rule for one in lint(iter(()), silences={BATCH: "meant"}).findings] == [
        "no-grain-graph"
    ]
    assert lint(iter(()), silences={"no-grain-graph": "a generator"}).findings == ()


@pytest.mark.parametrize(
    ("silences", "told"),
    [
        ({"batch-after": "meant"}, "one of nested-mp-prefetch, .*Found: 'batch-after'"),
        ({BATCH: " "}, "rule batch-after-mp-prefetch must have a reason. Found: ' '"),
    ],
)
def test_a_silence_of_no_rule_or_without_reason_is_misuse(
    silences: Mapping[str, str], told: str
) -> None:
    """The rules that exist are named."""
    with pytest.raises(MisuseError, match=told):
        lint(elements(), silences=silences)


# ---- The document


@pytest.fixture(params=WRONG_IN_MANY_WAYS)
def report(request: pytest.FixtureRequest) -> LintReport:
    """A report with findings, for most with a silence too."""
    return lint(request.param, silences={BATCH: "meant", ORDER: "meant"})


def test_the_document_follows_its_schema(report: LintReport) -> None:
    """The JSON is valid and complete."""
    schema = Path(netpipe.__file__).with_name("schemas") / "lint.1.json"
    document = report.to_document()
    of_command = document | {"trials": []}  # what --try measured is added by the command
    jsonschema.validate(of_command, json.loads(schema.read_text(encoding="utf-8")))
    assert json.loads(json.dumps(document)) == document
    assert document["grain_version"] == version("grain")


def test_a_report_comes_back_from_its_document(report: LintReport) -> None:
    """It is the same; what others add to the document is passed over."""
    assert parse_report(report.to_document() | {"trials": []}) == report


def test_places_in_the_users_code_travel_with_the_document() -> None:
    """A recording of the factory gives every node its line."""
    report = built(lambda: in_workers(elements()).batch(4))
    assert "linting.py:" in report.graph.nodes[-1].made_at
    assert parse_report(report.to_document()).graph == report.graph


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"schema": "netpipe.lint/0"}, "schema must be netpipe.lint/1"),
        ({"intent": None}, "hold every field"),
        ({"findings": [{"rule": "nested-mp-prefetch"}]}, "hold every field.*severity"),
        ({"silenced": [{"reason": "meant"}]}, "hold every field"),
        ({"graph": [{"id": 0}]}, "hold every field"),
    ],
)
def test_a_damaged_document_is_bad_input(changed: Mapping[str, Any], told: str) -> None:
    """The error names where it comes from and what is wrong with it."""
    document = {**lint(WRONG_IN_MANY_WAYS[0]).to_document(), **changed}
    if changed.get("intent", "") is None:
        del document["intent"]
    with pytest.raises(InputError, match=told):
        parse_report(document, "lint.json")
