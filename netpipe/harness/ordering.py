"""Rules over the graph of a Grain pipeline: what stands in the wrong place, and what it costs."""

import json
from dataclasses import asdict, dataclass
from importlib.metadata import version
from typing import Final

from netpipe.harness.errors import MisuseError
from netpipe.harness.finding import INTENTS, Inspected, LintFinding, Rule
from netpipe.harness.graph import Graph, read_graph
from netpipe.harness.host import this_host
from netpipe.harness.rules import placement, workers

SCHEMA = "netpipe.lint/1"


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
        pipeline = Inspected(graph, intent, this_host().cores)
        findings = tuple(finding for rule in RULES for finding in rule(pipeline))
    else:
        findings = (_no_graph(dataset),)
    return LintReport(intent, version("grain"), graph, findings)


RULES: Final[tuple[Rule, ...]] = (
    placement.batch_after_mp_prefetch,
    placement.map_after_mp_prefetch,
    placement.nested_mp_prefetch,
    workers.threads_in_workers,
)


def _no_graph(dataset: object) -> LintFinding:
    kind = type(dataset)
    return LintFinding(
        "no-grain-graph",
        "info",
        (),
        f"The loader is a {kind.__module__}.{kind.__qualname__}, no Grain dataset: there is no"
        " Grain graph to read, and nothing is known about its order",
        "Let the loader factory return the grain IterDataset, MapDataset or DataLoader itself",
    )
