"""Rules over the graph of a Grain pipeline: what stands in the wrong place, and what it costs."""

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import version
from typing import Literal

from netpipe.harness.errors import MisuseError
from netpipe.harness.graph import Graph, Node, read_graph

SCHEMA = "netpipe.lint/1"
INTENTS = ("throughput", "reproducible")

_MEASURED = "elements/s (measured on Grain 0.2.18, two workers on two cores)"
_HEAVY = "at 0.4 ms of Python per element and batches of 32"
_LIGHT = "at 16 KiB per element and batches of 256"

Severity = Literal["error", "warning", "info"]


@dataclass(frozen=True)
class LintFinding:
    """One thing that a rule found.

    Attributes:
        rule: The rule's name.
        severity: "error": wrong for the intent; "warning": it costs speed and may be meant;
            "info": a remark.
        nodes: Ids of the offending nodes, the one nearer to the trainer first.
        message: What stands where, and why that is wrong.
        cost: What it cost where it was measured.
        fix: The call to move or to change.
    """

    rule: str
    severity: Severity
    nodes: tuple[int, ...]
    message: str
    cost: str
    fix: str


@dataclass(frozen=True)
class LintReport:
    """What all rules say about one pipeline.

    Attributes:
        intent: What the pipeline is to be judged by: "throughput", or "reproducible" when its
            batches must not depend on the number of workers.
        grain_version: Of the installed Grain.
        graph: The pipeline; without nodes if it is no Grain pipeline.
        findings: Everything found, in the order of the rules.
    """

    intent: str
    grain_version: str
    graph: Graph
    findings: tuple[LintFinding, ...]

    def to_document(self) -> dict[str, object]:
        """Return the report as plain JSON values: a `netpipe.lint/1` document."""
        document: dict[str, object] = {
            "schema": SCHEMA,
            "intent": self.intent,
            "grain_version": self.grain_version,
            "graph": [asdict(node) for node in self.graph.nodes],
            "findings": [asdict(finding) for finding in self.findings],
        }
        plain: dict[str, object] = json.loads(json.dumps(document))
        return plain


def lint(dataset: object, intent: str = "throughput") -> LintReport:
    """Judge the order of a pipeline by its structure; no data is read.

    Args:
        dataset: What a loader factory returned: a grain MapDataset, IterDataset or DataLoader.
            Anything else has no graph, and the report says so.
        intent: One of `INTENTS`.

    Raises:
        MisuseError: The intent is another.
    """
    if intent not in INTENTS:
        raise MisuseError(f"intent must be one of {', '.join(INTENTS)}. Found: {intent!r}")
    graph = read_graph(dataset)
    if graph.nodes:
        findings = tuple(finding for rule in RULES for finding in rule(graph, intent))
    else:
        findings = (_no_graph(dataset),)
    return LintReport(intent, version("grain"), graph, findings)


def batch_after_mp_prefetch(graph: Graph, intent: str) -> Iterator[LintFinding]:
    """Batches are made in the training process, not in the workers.

    An error for throughput. It is what keeps the batches independent of the number of workers,
    so where that is the intent it is a remark.
    """
    for node, prefetch in _after_workers(graph, "Batch", "Rebatch"):
        yield LintFinding(
            "batch-after-mp-prefetch",
            "error" if intent == "throughput" else "info",
            (node.id, prefetch.id),
            f"{node} comes after mp_prefetch: the workers send single elements, and the one"
            " process that trains makes every batch",
            f"2,188 instead of 4,779 {_HEAVY}, 1,874 instead of 51,073 {_LIGHT}: {_MEASURED}",
            f"Move .mp_prefetch(...) behind the batch: .batch(batch_size="
            f"{node.parameters.get('batch_size')}).mp_prefetch(...)",
        )


_ORDER_DEPENDS_ON_WORKERS = (
    "RandomMap",
    "MapWithIndex",
    "Filter",
    "FlatMap",
    "Pack",
    "ConcatThenSplit",
    "Operation",
)


def map_after_mp_prefetch(graph: Graph, intent: str) -> Iterator[LintFinding]:
    """User code runs in the training process, not in the workers.

    An error for throughput. For reproducible it is a remark about what would depend on the number
    of workers inside them, and a warning about a plain map, which would not. A map that puts
    elements on a device belongs there, as devices cannot be sent to workers.
    """
    for node, prefetch in _after_workers(graph, "Map", *_ORDER_DEPENDS_ON_WORKERS):
        if node.parameters.get("device_put"):
            continue
        kept_for_order = node.kind in _ORDER_DEPENDS_ON_WORKERS
        otherwise: Severity = "info" if kept_for_order else "warning"
        yield LintFinding(
            "map-after-mp-prefetch",
            "error" if intent == "throughput" else otherwise,
            (node.id, prefetch.id),
            f"{node} comes after mp_prefetch: it runs in the one process that trains, one element"
            " after the other, and not in the workers",
            f"2,626 with all in one process instead of 4,779 {_HEAVY}: {_MEASURED}",
            f"Move .mp_prefetch(...) behind the {node.kind}: it is the last call before any"
            " device_put",
        )


def nested_mp_prefetch(graph: Graph, intent: str) -> Iterator[LintFinding]:  # noqa: ARG001  # as all rules
    """A worker would have to start workers. An error, whatever the intent."""
    for outer in graph.of_kind("ProcessPrefetch"):
        for inner in graph.below(outer):
            if inner.kind == "ProcessPrefetch":
                yield LintFinding(
                    "nested-mp-prefetch",
                    "error",
                    (outer.id, inner.id),
                    "mp_prefetch comes after another mp_prefetch: workers are daemonic processes,"
                    " which cannot start processes of their own",
                    "The first next() raises 'daemonic processes are not allowed to have children'",
                    "Remove the inner .mp_prefetch(...); one at the end runs all below it in"
                    " workers (branches side by side under a mix may have one each)",
                )


def threads_in_workers(graph: Graph, intent: str) -> Iterator[LintFinding]:  # noqa: ARG001  # as all rules
    """Every worker reads with threads of its own. A warning: remote storage may want them."""
    from_loader = bool(graph.of_kind("DataLoader"))
    argument = "DataLoader(read_options=" if from_loader else ".to_iter_dataset("
    for node in graph.of_kind("ToIter"):
        threads = node.parameters.get("num_threads")
        if not node.in_worker or not isinstance(threads, int) or threads == 0:
            continue
        prefetch = _nearest_above(graph, node)
        yield LintFinding(
            "threads-in-workers",
            "warning",
            (prefetch.id, node.id),
            f"to_iter_dataset reads with {threads} threads in each of the"
            f" {prefetch.parameters['num_workers']} workers of mp_prefetch: they contend for the"
            " worker's interpreter lock, and pay only where reading waits (remote storage)",
            f"3,125 instead of 4,779 {_HEAVY}, 8,989 instead of 51,073 {_LIGHT}: {_MEASURED}",
            f"Read without threads: {argument}grain.ReadOptions(num_threads=0))",
        )


Rule = Callable[[Graph, str], Iterator[LintFinding]]

RULES: tuple[Rule, ...] = (
    batch_after_mp_prefetch,
    map_after_mp_prefetch,
    nested_mp_prefetch,
    threads_in_workers,
)


def _after_workers(graph: Graph, *kinds: str) -> Iterator[tuple[Node, Node]]:
    """Yield each node of the training process with the nearest mp_prefetch below it."""
    for node in graph.of_kind(*kinds):
        prefetch = next((one for one in graph.below(node) if one.kind == "ProcessPrefetch"), None)
        if prefetch is not None and not node.in_worker:
            yield node, prefetch


def _nearest_above(graph: Graph, node: Node) -> Node:
    """Return the mp_prefetch in whose workers a node runs: nodes further down come later."""
    return [one for one in graph.of_kind("ProcessPrefetch") if node in graph.below(one)][-1]


def _no_graph(dataset: object) -> LintFinding:
    kind = type(dataset)
    return LintFinding(
        "no-grain-graph",
        "info",
        (),
        f"The loader is a {kind.__module__}.{kind.__qualname__}, no Grain dataset: there is no"
        " Grain graph to read, and nothing is known about its order",
        "Not known",
        "Let the loader factory return the grain IterDataset, MapDataset or DataLoader itself",
    )
