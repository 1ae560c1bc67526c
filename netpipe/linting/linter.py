"""Rules over the graph of a Grain pipeline: what stands in the wrong place, and what it costs."""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from importlib.metadata import version
from typing import Any, Final

import cattrs
from cattrs.errors import BaseValidationError

from netpipe.device.host import this_host
from netpipe.errors import InputError, MisuseError
from netpipe.linting.graph.nodes import Graph, Node, qualified_name
from netpipe.linting.graph.reader import read_graph
from netpipe.linting.graph.source_lines import Recording
from netpipe.linting.graph.wrapped_datasets import find_dataset_properties, find_held_datasets
from netpipe.linting.request import INTENTS
from netpipe.linting.rules import NO_GRAIN_GRAPH, RULE_NAMES, RULES, UNUSED_SILENCE
from netpipe.linting.rules.costs import describe_cost
from netpipe.linting.rules.finding import (
    LintFinding,
    Pipeline,
    SilencedFinding,
    merge_findings,
)

SCHEMA = "netpipe.lint/1"

_OF: Final = " of "  # between a rule and the one function that it is silenced for


@dataclass(frozen=True)
class LintReport:
    """What all rules say about one pipeline.

    Attributes:
        intent: What the pipeline is to be judged by: "throughput", or "reproducible" when its
            batches must not depend on the number of workers.
        grain_version: Of the installed Grain.
        graph: The pipeline; without nodes if it is no Grain pipeline.
        findings: Everything found, in the order of the rules.
        silenced: What was found and is not to be heard of.
    """

    intent: str
    grain_version: str
    graph: Graph
    findings: tuple[LintFinding, ...]
    silenced: tuple[SilencedFinding, ...] = ()

    @property
    def errors(self) -> tuple[LintFinding, ...]:
        """What is wrong for the intent."""
        return tuple(finding for finding in self.findings if finding.severity == "error")

    def to_document(self) -> dict[str, object]:
        """Return the report as plain JSON values: a `netpipe.lint/1` document."""
        document: dict[str, object] = {
            "schema": SCHEMA,
            "intent": self.intent,
            "grain_version": self.grain_version,
            "graph": [asdict(node) for node in self.graph.nodes],
            "findings": [asdict(finding) for finding in self.findings],
            "silenced": [asdict(one.finding) | {"reason": one.reason} for one in self.silenced],
        }
        plain: dict[str, object] = json.loads(json.dumps(document))
        return plain


def lint(
    dataset: object,
    intent: str = "throughput",
    *,
    recording: Recording | None = None,
    silences: Mapping[str, str] | None = None,
) -> LintReport:
    """Judge the order of a pipeline by its structure; no data is read.

    Args:
        dataset: What a loader factory returned: a grain MapDataset, IterDataset or DataLoader.
            Anything else has no graph, and the report says so.
        intent: One of `INTENTS`.
        recording: What was noted while the factory ran; without it nothing is known of lines of
            code, and of an `mp_prefetch` without workers.
        silences: The reason for each rule, by its name, whose findings are to be set aside; with
            " of " and the name of a function behind it, for what it says of that function alone.

    Raises:
        MisuseError: The intent is another, or a silence names no rule or has no reason.
    """
    if intent not in INTENTS:
        raise MisuseError(f"intent must be one of {', '.join(INTENTS)}. Found: {intent!r}")
    silences = silences or {}
    _check(silences)
    graph, remarks = _graph_of(dataset, recording)
    found = [*_judged(graph, intent), *remarks]
    silenced = list(_silenced(found, graph, silences))
    aside = [one.finding for one in silenced]
    meant = {one.nodes[0] for one in aside if one.rule not in silences}
    if meant:  # what comes after them is to be heard, as if they were not there
        found = list(_judged(_without_work(graph, meant), intent))
    heard = [one for one in found if one.rule not in silences and one not in aside]
    if graph.nodes:
        heard += _unused(silences, graph, aside)
    return LintReport(intent, version("grain"), graph, tuple(heard), tuple(silenced))


def _silenced(
    found: Sequence[LintFinding], graph: Graph, silences: Mapping[str, str]
) -> Iterator[SilencedFinding]:
    for one in found:
        function = _function(graph.nodes[one.nodes[0]]) if one.nodes else ""
        reason = silences.get(one.rule) or silences.get(f"{one.rule}{_OF}{function}")
        if reason:
            yield SilencedFinding(one, reason)


def _function(node: Node) -> str:
    return str(node.parameters.get("transform") or "")


def _without_work(graph: Graph, meant: Collection[int]) -> Graph:
    return Graph(
        tuple(
            replace(node, kind="Options", parameters={}) if node.id in meant else node
            for node in graph.nodes
        )
    )


def _graph_of(dataset: object, recording: Recording | None) -> tuple[Graph, list[LintFinding]]:
    """Read the graph of a dataset, or of the only one that the loader holds; and say which."""
    graph = read_graph(dataset, recording)
    if graph.nodes:
        return graph, []
    held = find_held_datasets(dataset)
    if len(held) == 1:
        ((name, inner),) = held.items()
        return read_graph(inner, recording), [_held(dataset, name)]
    return graph, [_no_graph(dataset, held or find_dataset_properties(dataset))]


def _judged(graph: Graph, intent: str) -> Iterator[LintFinding]:
    if not graph.nodes:
        return
    pipeline = Pipeline(graph, intent, this_host().cores)
    for name, rule in RULES.items():
        for finding in merge_findings(rule(pipeline)):
            yield replace(finding, cost=describe_cost(name))


def _check(silences: Mapping[str, str]) -> None:
    for rule, reason in silences.items():
        if rule_of_silence(rule) not in RULE_NAMES:
            known = ", ".join(RULE_NAMES)
            raise MisuseError(f"a silenced rule must be one of {known}. Found: {rule!r}")
        if not reason.strip():
            raise MisuseError(f"the silenced rule {rule} must have a reason. Found: {reason!r}")


def rule_of_silence(silence: str) -> str:
    """Return the rule that a silence is of."""
    return silence.partition(_OF)[0]


def _unused(
    silences: Mapping[str, str], graph: Graph, aside: Sequence[LintFinding]
) -> Iterator[LintFinding]:
    broken = {one.rule for one in aside}
    here = {_function(node) for node in graph.nodes}
    for silence, reason in silences.items():
        rule, _, function = silence.partition(_OF)
        if rule not in broken and (not function or function in here):
            yield LintFinding(
                UNUSED_SILENCE,
                "warning",
                (),
                f"{silence} is silenced, and the pipeline does not break it. The reason given:"
                f" {reason}",
                f"Remove the silence of {silence}",
            )


def _held(dataset: object, name: str) -> LintFinding:
    kind = qualified_name(type(dataset))
    return LintFinding(
        NO_GRAIN_GRAPH,
        "info",
        (),
        f"The loader is a {kind}, no Grain dataset: the graph is that of the dataset in its"
        f" attribute {name}, and nothing is known about what {kind} does with it",
        f"To lint all that runs, let the loader factory return the dataset itself: loader.{name}",
    )


def _no_graph(dataset: object, places: Iterable[str]) -> LintFinding:
    names = " or ".join(f"loader.{name}" for name in places)
    return LintFinding(
        NO_GRAIN_GRAPH,
        "info",
        (),
        f"The loader is a {qualified_name(type(dataset))}, no Grain dataset: there is no"
        " Grain graph to read, and nothing is known about its order",
        "Let the loader factory return the grain IterDataset, MapDataset or DataLoader itself"
        + (f": {names}" if names else ""),
    )


def parse_report(document: Mapping[str, Any], where: str = "lint") -> LintReport:
    """Read a report back from a `netpipe.lint/1` document; what is more in it is passed over.

    Args:
        document: What `LintReport.to_document` returned.
        where: What it comes from, for the error message.

    Raises:
        InputError: The document is of another schema, or a field is missing or wrong.
    """
    if document.get("schema") != SCHEMA:
        raise InputError(where, "schema", f"be {SCHEMA}", repr(document.get("schema")))
    try:
        return _converter().structure(document, LintReport)
    except BaseValidationError as error:
        found = "; ".join(cattrs.transform_error(error))
        raise InputError(where, "report", "hold every field", found) from error


@cache
def _converter() -> cattrs.Converter:
    converter = cattrs.Converter()
    in_node = cattrs.gen.override(struct_hook=lambda value, _: _parameters(value))
    read_node = cattrs.gen.make_dict_structure_fn(Node, converter, parameters=in_node)
    converter.register_structure_hook(Node, read_node)
    converter.register_structure_hook(
        Graph, lambda nodes, _: Graph(converter.structure(nodes, tuple[Node, ...]))
    )
    converter.register_structure_hook(
        SilencedFinding,
        lambda one, _: SilencedFinding(converter.structure(one, LintFinding), str(one["reason"])),
    )
    return converter


def _parameters(value: Mapping[str, Any]) -> dict[str, Any]:
    """Make tuples of the lists that JSON has instead."""
    return {name: _hashable(one) for name, one in value.items()}


def _hashable(value: Any) -> Any:
    return tuple(_hashable(one) for one in value) if isinstance(value, list) else value
