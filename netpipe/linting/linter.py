"""Applies every rule to the graph of a Grain pipeline and reports the findings."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from importlib.metadata import version
from importlib.resources import files
from typing import Annotated, Any, Final, Literal

from netpipe.device.host import this_host
from netpipe.grain_access.nodes import Graph, Node, qualified_name
from netpipe.grain_access.reader import find_dataset_properties, find_held_datasets, read_graph
from netpipe.grain_access.source_lines import Recording
from netpipe.linting.rules import LOCAL_ONLY, NO_GRAIN_GRAPH, RULES
from netpipe.linting.rules.finding import LintFinding, Pipeline, Reads, SilencedFinding
from netpipe.results.fields import Document

# A node that no rule reports.
_NO_FINDING: Final[Mapping[str, Any]] = {
    "kind": "Options", "parameters": {}, "uses_jax": False, "sent_bytes": None, "unpicklable": ""
}  # fmt: skip


@dataclass(frozen=True)
class LintReport(Document):
    """The findings of all rules in one pipeline, in the order of the rules."""

    SCHEMA = "netpipe.lint/1"

    #: The standard that the pipeline is judged by: speed, or batches that do not depend on the
    #: number of workers.
    intent: Annotated[str, Literal["throughput", "reproducible"]]
    grain_version: str
    #: The nodes from the trainer's end down to the sources; none if the loader is not Grain's.
    graph: Annotated[Graph, tuple[Node, ...]]
    findings: tuple[LintFinding, ...]
    #: Findings that the project's configuration silences, or that do not hold because reading
    #: waits.
    silenced: tuple[SilencedFinding, ...] = ()

    def to_document(self) -> dict[str, object]:
        """Return the report as plain JSON values: a `netpipe.lint/1` document."""
        document = super().to_document()
        return {**document, "graph": document["graph"]["nodes"]}


def lint(
    dataset: object,
    intent: str = "throughput",
    *,
    lacks_flags: bool = False,
    recording: Recording | None = None,
    silences: Mapping[str, str] | None = None,
    reads: Reads = Reads(),  # noqa: B008  # it is immutable
) -> LintReport:
    """Return a report on the structure of the pipeline that a loader factory returned.

    No data is read, except that `reads.measure_batch` may read a batch if buffers hold many.
    The report says so if the object is not a grain MapDataset, IterDataset or DataLoader. Without a
    recording of the factory the nodes have no source lines, and an `mp_prefetch` without workers is
    not seen. The intent and the silences are those of a `LintRequest`, `lacks_flags` that of a
    `Pipeline`; where reading waits, the rules of `LOCAL_ONLY` are silenced.
    """
    silences = silences or {}
    graph, remarks = _read_graph(dataset, recording)
    host, for_speed = this_host(), intent == "throughput"
    pipeline = Pipeline(graph, for_speed, host.cores, host.memory_bytes, reads, lacks_flags)
    findings, reasons = list[LintFinding](), dict[LintFinding, str]()
    for rule in RULES if graph.nodes else ():
        # A rule may name only the first of several nodes, so it is applied again without those.
        silenced_nodes, is_open = set[int](), True
        while is_open:
            found, is_open = list(_apply_rule(rule, pipeline, silenced_nodes)), False
            for finding, number in ((each, number) for each in found for number in each.nodes):
                name = graph.nodes[number].parameters.get("transform")
                reason = silences.get(f"{rule} of {name}") if name else None
                if reason and number not in silenced_nodes:
                    reasons[finding], is_open = reason, True
                    silenced_nodes.add(number)
        findings += found
    findings += remarks
    reasons |= {each: silences[each.rule] for each in findings if each.rule in silences}
    if reads.wait:
        local = (each for each in findings if each.rule in LOCAL_ONLY)
        reasons = {**dict.fromkeys(local, reads.evidence), **reasons}
    kept = [each for each in findings if each not in reasons]
    silenced = (SilencedFinding(**vars(each), reason=reason) for each, reason in reasons.items())
    return LintReport(intent, version("grain"), graph, tuple(kept), tuple(silenced))


def _read_graph(dataset: object, recording: Recording | None) -> tuple[Graph, list[LintFinding]]:
    """Read the graph of a dataset, or of the only dataset that a loader holds."""
    graph = read_graph(dataset, recording)
    if graph.nodes:
        return graph, []
    kind, held = qualified_name(type(dataset)), find_held_datasets(dataset)
    problem = "there is no Grain graph to read, and nothing is known about its order"
    if len(held) == 1:
        ((name, inner),) = held.items()
        graph = read_graph(inner, recording)
        problem = (
            f"the graph is that of the dataset in its attribute {name}, and nothing is known about"
            f" what {kind} does with it"
        )
    fix = "Let the loader factory return the grain IterDataset, MapDataset or DataLoader itself"
    if names := held or find_dataset_properties(dataset):
        fix += f": {' or '.join(f'loader.{name}' for name in names)}"
    message = f"The loader is a {kind}, not a Grain dataset: {problem}"
    return graph, [LintFinding(NO_GRAIN_GRAPH, "info", (), message, fix)]


def _apply_rule(name: str, pipeline: Pipeline, silenced_nodes: set[int]) -> Iterator[LintFinding]:
    nodes = pipeline.graph.nodes
    kept = (replace(node, **_NO_FINDING) if node.id in silenced_nodes else node for node in nodes)
    judged = replace(pipeline, graph=replace(pipeline.graph, nodes=tuple(kept)))
    # Problems that differ only in their nodes are merged into one finding with all nodes.
    merged: dict[LintFinding, dict[int, None]] = {}
    for severity, found, message, fix in RULES[name](judged):
        finding = LintFinding(name, severity, (), message, fix, load_costs().get(name, ""))
        merged.setdefault(finding, {}).update(dict.fromkeys(node.id for node in found))
    yield from (replace(finding, nodes=tuple(ids)) for finding, ids in merged.items())


def load_costs() -> Mapping[str, str]:
    """Return the cost of breaking each rule, as measured by `perf_tests.studies.rule_costs`."""
    text = (files("netpipe.linting.rules") / "costs.json").read_text(encoding="utf-8")
    costs: dict[str, str] = json.loads(text)
    return costs


def parse_report(document: Mapping[str, Any]) -> LintReport:
    """Return the report of a valid `netpipe.lint/1` document; additional keys are ignored."""
    fields = _to_tuples(document)
    return LintReport(
        intent=fields["intent"],
        grain_version=fields["grain_version"],
        graph=Graph(tuple(Node(**node) for node in fields["graph"])),
        findings=tuple(LintFinding(**finding) for finding in fields["findings"]),
        silenced=tuple(SilencedFinding(**finding) for finding in fields["silenced"]),
    )


def _to_tuples(value: Any) -> Any:
    """Turn the lists of JSON back into tuples."""
    if isinstance(value, Mapping):
        return {name: _to_tuples(item) for name, item in value.items()}
    return tuple(map(_to_tuples, value)) if isinstance(value, list) else value
