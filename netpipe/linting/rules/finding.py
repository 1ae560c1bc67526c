"""What every rule takes and yields: the pipeline that it judges, and its findings."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from netpipe.linting.graph.nodes import Graph

Severity = Literal["error", "warning", "info"]


@dataclass(frozen=True)
class Pipeline:
    """What the rules judge.

    Attributes:
        graph: The nodes of the pipeline.
        intent: "throughput", or "reproducible" when its batches must not depend on the number of
            workers.
        cores: CPU cores that the process may use.
    """

    graph: Graph
    intent: str
    cores: int

    @property
    def for_throughput(self) -> bool:
        """Whether the pipeline is judged for speed."""
        return self.intent == "throughput"


@dataclass(frozen=True)
class LintFinding:
    """One finding of a rule.

    Attributes:
        rule: The rule's name.
        severity: "error": wrong for the intent; "warning": costs something, but may be intended;
            "info": a remark.
        nodes: Ids of the offending nodes, the one nearest to the trainer first.
        message: What is wrong, and why.
        fix: The call to move or to change.
        cost: The cost measured by the repository's benchmark; "" if it was not measured.
        proof: What a test on the pipeline's own elements showed; "" if none was made.
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
    """A finding that the user silenced, with the user's reason."""

    finding: LintFinding
    reason: str


Rule = Callable[[Pipeline], Iterator[LintFinding]]
