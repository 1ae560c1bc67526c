"""What a rule is given and what it gives: a pipeline's graph, and what stands wrong in it."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

from netpipe.linting.graph.nodes import Graph

Severity = Literal["error", "warning", "info"]


@dataclass(frozen=True)
class Pipeline:
    """What the rules judge.

    Attributes:
        graph: The pipeline.
        intent: "throughput", or "reproducible" when its batches must not depend on the number of
            workers.
        cores: CPU cores that the process may use.
    """

    graph: Graph
    intent: str
    cores: int

    @property
    def for_throughput(self) -> bool:
        """Whether speed is the intent."""
        return self.intent == "throughput"


@dataclass(frozen=True)
class LintFinding:
    """One thing that a rule found.

    Attributes:
        rule: The rule's name.
        severity: "error": wrong for the intent; "warning": it costs speed and may be meant;
            "info": a remark.
        nodes: Ids of the offending nodes, the one nearer to the trainer first.
        message: What stands where, and why that is wrong.
        fix: The call to move or to change.
        cost: What it costs where it was measured.
        proof: What a try on the pipeline's own elements showed; "" where none was made.
    """

    rule: str
    severity: Severity
    nodes: tuple[int, ...]
    message: str
    fix: str
    cost: str = ""
    proof: str = ""


@dataclass(frozen=True)
class SilencedFinding:
    """A finding that the user does not want to hear of.

    Attributes:
        finding: What was found.
        reason: Why it is silenced, in the user's words.
    """

    finding: LintFinding
    reason: str


Rule = Callable[[Pipeline], Iterator[LintFinding]]


def merge_findings(findings: Iterable[LintFinding]) -> Iterator[LintFinding]:
    """Make one finding of all that say the same, with the nodes of all."""
    nodes: dict[LintFinding, dict[int, None]] = {}
    for finding in findings:
        nodes.setdefault(replace(finding, nodes=()), {}).update(dict.fromkeys(finding.nodes))
    return (replace(finding, nodes=tuple(ids)) for finding, ids in nodes.items())
