"""The report on a pipeline: the order of findings, silences, and the JSON document."""

import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

import grain
import jax
import jsonschema
import pytest

import netpipe
from netpipe.linting import linter
from netpipe.linting.linter import LintReport, lint, parse_report
from netpipe.linting.rules import RULE_NAMES, RULES
from netpipe.linting.rules.finding import Reads
from tests.linting.rules.linting import elements, in_workers, increment, lint_factory, source

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


def scaled(element: int) -> Any:
    """Return twice the element, as an array of JAX."""
    return jax.numpy.multiply(element, 2)


@pytest.fixture(autouse=True)
def _costs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the measured costs, which change when they are recorded again."""
    costs = {rule: f"the cost of {rule}" for rule in RULES}
    monkeypatch.setattr(linter, "load_costs", lambda: costs)


@pytest.mark.parametrize("dataset", WRONG_IN_MANY_WAYS[:-1])
def test_findings_come_in_the_order_of_the_registry(dataset: Any) -> None:
    """Every finding has the name of a registered rule."""
    rules = [finding.rule for finding in lint(dataset).findings]
    assert rules == sorted(rules, key=RULE_NAMES.index) != []


def test_every_finding_has_its_cost() -> None:
    """The cost is looked up by the rule's name."""
    findings = lint(WRONG_IN_MANY_WAYS[0]).findings
    assert findings
    assert all(finding.cost == f"the cost of {finding.rule}" for finding in findings)


def test_no_element_is_read() -> None:
    """The sources of these pipelines fail when they are read."""
    for dataset in WRONG_IN_MANY_WAYS:
        lint(dataset)


def test_a_loader_that_is_not_grains_has_a_finding_and_no_graph() -> None:
    """The report on a generator says that there is nothing to read."""
    report = lint(batch for batch in range(3))
    (finding,) = report.findings
    assert (finding.rule, finding.severity, finding.nodes) == ("no-grain-graph", "info", ())
    assert "builtins.generator" in finding.message
    assert report.graph.nodes == ()


# ---- Silences


def test_a_silenced_finding_is_set_aside_with_its_reason() -> None:
    """The finding is kept with its reason, and the others are reported."""
    late = in_workers(in_workers(elements())).batch(4)
    report = lint(late, silences={BATCH: "few batches"})
    (silenced,) = report.silenced
    assert (silenced.rule, silenced.reason) == (BATCH, "few batches")
    assert {**vars(silenced), "reason": None} in [
        {**vars(finding), "reason": None} for finding in lint(late).findings
    ]
    assert [finding.rule for finding in report.findings] == [NESTED]


def test_a_rule_can_be_silenced_for_one_function() -> None:
    """The finding about that function is set aside, and the next function is reported."""
    function = "tests.linting.rules.linting.increment"
    silences = {f"{MAP} of {function}": "it is cheap"}
    alone = lint(in_workers(elements()).map(increment), silences=silences)
    assert alone.findings == ()
    assert [(entry.rule, entry.reason) for entry in alone.silenced] == [(MAP, "it is cheap")]
    more = lint(in_workers(elements()).map(increment).map(dict), silences=silences)
    assert [finding.rule for finding in more.findings] == [MAP]
    assert "Map of builtins.dict" in more.findings[0].message
    assert [entry.rule for entry in more.silenced] == [MAP]


def test_two_functions_can_be_silenced() -> None:
    """The second one is reported only if the first is not."""
    late = in_workers(elements()).map(increment).map(dict)
    silences = {
        f"{MAP} of tests.linting.rules.linting.increment": "it is cheap",
        f"{MAP} of builtins.dict": "so is this",
    }
    report = lint(late, silences=silences)
    assert report.findings == ()
    assert [each.reason for each in report.silenced] == ["it is cheap", "so is this"]


def test_a_function_is_silenced_where_a_finding_names_its_workers_first() -> None:
    """Only the rule of the silence accepts it."""
    silence = f"jax-in-worker of {scaled.__module__}.{scaled.__name__}"
    report = lint(in_workers(elements().map(scaled)), silences={silence: "a light call"})
    assert report.findings == ()
    assert [each.rule for each in report.silenced] == ["jax-in-worker"]


def test_a_silence_for_a_function_without_a_name_silences_nothing() -> None:
    """It is a mistake in pyproject.toml, and the finding stays."""
    report = lint(object(), silences={"no-grain-graph of ": "a slip of the pen"})
    assert [finding.rule for finding in report.findings] == ["no-grain-graph"]
    assert report.silenced == ()


def test_a_remark_about_the_loader_stays_beside_a_silence_for_one_function() -> None:
    """Judging the graph again without the silenced map does not lose the second finding."""

    class Holder:
        def __init__(self) -> None:
            self.dataset = in_workers(elements()).map(increment)

        def __iter__(self) -> Any:
            return iter(self.dataset)

    silences = {f"{MAP} of tests.linting.rules.linting.increment": "it is cheap"}
    assert [finding.rule for finding in lint(Holder(), silences=silences).findings] == [
        "no-grain-graph"
    ]


def test_an_unused_silence_is_not_reported() -> None:
    """It may be there for another pipeline of the project."""
    report = lint(source(), silences={NESTED: "another pipeline needs it"})
    assert report.findings == report.silenced == ()
    report = lint(iter(()), silences={BATCH: "meant"})
    assert [finding.rule for finding in report.findings] == ["no-grain-graph"]
    assert lint(iter(()), silences={"no-grain-graph": "a generator"}).findings == ()


# ---- The document


@pytest.fixture(params=WRONG_IN_MANY_WAYS)
def report(request: pytest.FixtureRequest) -> LintReport:
    """A report with findings, for most with a silence too."""
    return lint(request.param, silences={BATCH: "meant", ORDER: "meant"})


def test_the_document_follows_its_schema(report: LintReport) -> None:
    """The JSON is valid and complete."""
    schema = Path(netpipe.__file__).with_name("schemas") / "lint.1.json"
    document = report.to_document()
    of_command = document | {"trials": []}  # the command adds the trials
    jsonschema.validate(of_command, json.loads(schema.read_text(encoding="utf-8")))
    assert json.loads(json.dumps(document)) == document
    assert document["grain_version"] == version("grain")


def test_a_report_comes_back_from_its_document(report: LintReport) -> None:
    """The report is the same; additional keys are ignored."""
    assert parse_report(report.to_document() | {"trials": []}) == report


def test_source_lines_are_in_the_document() -> None:
    """A recording of the factory gives every node its line."""
    report = lint_factory(lambda: in_workers(elements()).batch(4))
    assert "linting.py:" in report.graph.nodes[-1].made_at
    assert parse_report(report.to_document()).graph == report.graph


# ---- Storage


def test_findings_that_hold_for_local_reads_are_silenced_by_the_evidence() -> None:
    """Nothing is dropped without a trace; findings of other rules stay."""
    dataset = in_workers(source().to_iter_dataset()).batch(4)
    before, after = lint(dataset), lint(dataset, reads=Reads(wait=True, evidence="it waits"))
    assert {finding.rule for finding in before.findings} == {BATCH, "threads-in-workers"}
    assert [finding.rule for finding in after.findings] == [BATCH]
    (aside,) = after.silenced
    assert (aside.rule, aside.reason) == ("threads-in-workers", "it waits")
    assert parse_report(after.to_document()) == after

    # The user's own reason comes first, and is not unused.
    silences = {"threads-in-workers": "ours"}
    report = lint(dataset, silences=silences, reads=Reads(wait=True, evidence="it waits"))
    assert [aside.reason for aside in report.silenced] == ["ours"]
    assert [finding.rule for finding in report.findings] == [BATCH]
