"""The types that rules take and yield, and the findings that the linter builds from problems."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Final, Literal, NamedTuple

from netpipe.grain_access.nodes import Graph, Node
from netpipe.results.fields import Count, Must, Text

Severity = Literal["error", "warning", "info"]
SEVERITIES: Final[Sequence[Severity]] = ("error", "warning", "info")
"""From the worst to the mildest."""


class Reads(NamedTuple):
    """Whether reading is known to wait, and the evidence for or against that; "" if there is none.

    `measure_batch` reads a batch and returns its bytes, or None if it cannot.
    """

    wait: bool = False
    evidence: str = ""
    measure_batch: Callable[[Graph], int | None] = lambda _: None


@dataclass(frozen=True)
class Pipeline:
    """A pipeline, the intent, and the cores and memory that its process may use."""

    graph: Graph
    #: Whether the intent is speed. If not, the pipeline must be reproducible: its batches must not
    #: depend on the number of workers.
    for_throughput: bool
    cores: int  #: CPU cores that the process may use.
    memory_bytes: int  #: Memory that the process may use.
    reads: Reads
    lacks_flags: bool  #: Whether Grain starts no workers until absl's flags are parsed.


class Problem(NamedTuple):
    """A problem that a rule found; the fields are those of a `LintFinding`."""

    severity: Severity
    nodes: Sequence[Node]
    message: str
    fix: str


Rule = Callable[[Pipeline], Iterator[Problem]]


@dataclass(frozen=True)
class LintFinding:
    """One finding of a rule."""

    rule: Annotated[str, Must(pattern="^[a-z]+(-[a-z]+)*$")]
    #: error: wrong for the intent; warning: costs something, but may be intended; info: a remark.
    severity: Severity
    nodes: tuple[Count, ...]  #: Ids of the offending nodes, the one nearest to the trainer first.
    message: str  #: What is wrong, and why.
    fix: str  #: The call to move or to change.
    #: The cost measured by the repository's benchmark; empty if it was not measured.
    cost: str = ""
    proof: str = ""  #: Result of a test on the pipeline's own elements; empty if none was made.


def sort_by_severity(findings: Iterable[LintFinding]) -> Sequence[LintFinding]:
    """Return the findings: errors first, then warnings, then remarks."""
    return sorted(findings, key=lambda finding: SEVERITIES.index(finding.severity))


@dataclass(frozen=True, kw_only=True)
class SilencedFinding(LintFinding):
    """A finding that the user silenced, or that does not hold where reading waits."""

    reason: Text  #: Why the project silenced it, or how it is known that reading waits.
