"""Fixes for findings, as variants that can be tried without changing the user's code."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from netpipe.grain_access.dataset_variants import Variant
from netpipe.grain_access.nodes import Graph
from netpipe.linting.linter import LintReport
from netpipe.linting.rules.buffers import FEW_READS, MANY_READS, THREAD_PREFETCH
from netpipe.linting.rules.finding import sort_by_severity
from netpipe.linting.rules.graph_parts import started_pools, write_workers

# Each worker costs memory.
_MAX_NEW_WORKERS: Final = 4
_OVERLAPPING: Final = ("no-prefetch", "no-workers")


@dataclass(frozen=True)
class Fix:
    """A change to a pipeline that fixes a finding.

    Attributes:
        change: The call to write instead; `variant` has the same effect.
        why_not: Why it cannot be tried without changing the user's code; "" if it can.
        overlaps: Whether the fix lets loading continue while the trainer works; such a gain shows
            only beside a step.
    """

    rule: str
    change: str
    variant: Variant
    why_not: str = ""
    overlaps: bool = False


def fixes_for(report: LintReport, cores: int) -> tuple[Fix, ...]:
    """Return the fixes to try, the most severe first; most rules have none."""
    rules = dict.fromkeys(finding.rule for finding in sort_by_severity(report.findings))
    # Without threads there is no buffer.
    if rules.keys() & {"threads-in-workers", "threads-in-training-process"}:
        rules.pop("oversized-read-buffer", None)
    ahead = _reads_ahead(report.graph)
    fixes: list[Fix] = []
    for rule in rules:
        for change, variant in _propose(rule, report.graph, cores):
            why_not = _find_obstacle(report.graph) if variant.workers_last else ""
            overlaps = rule in _OVERLAPPING and not ahead
            fixes.append(Fix(rule, change, variant, why_not, overlaps))
    return tuple(fixes)


def _propose(rule: str, graph: Graph, cores: int) -> Iterator[tuple[str, Variant]]:
    """Yield each call to write instead, with the variant that tries it."""
    is_data_loader, ahead = bool(graph.data_loader), _reads_ahead(graph)
    thread_prefetch = f"{THREAD_PREFETCH} at the end"
    match rule:
        case "threads-in-workers" | "threads-in-training-process":
            needs_thread = rule == "threads-in-training-process" and not (is_data_loader or ahead)
            change = "grain.ReadOptions(num_threads=0)"
            replacement = f", and {thread_prefetch}" if needs_thread else ""
            yield change + replacement, Variant(read_threads=0, thread_prefetch=needs_thread)
        case "oversized-read-buffer":
            yield f"grain.ReadOptions({FEW_READS})", Variant(read_threads=4, read_buffer=4)
        case "too-few-reads-in-flight":
            yield f"grain.ReadOptions({MANY_READS})", Variant(read_threads=16, read_buffer=64)
        case "no-prefetch":
            if not is_data_loader:
                yield thread_prefetch, Variant(thread_prefetch=True)
            if not _find_obstacle(graph):
                yield _propose_workers(graph, min(cores, _MAX_NEW_WORKERS))
        case "no-workers":
            yield _propose_workers(graph, min(cores, _MAX_NEW_WORKERS))
        case "too-many-workers":
            each = max(1, cores // len(started_pools(graph)))
            yield write_workers(graph, each), Variant(workers=each)
        case "batch-after-mp-prefetch" | "map-after-mp-prefetch":
            yield ".mp_prefetch(...) moved to the end", Variant(workers_last=True)


def _reads_ahead(graph: Graph) -> bool:
    return bool(graph.of_kind("ProcessPrefetch", "ThreadPrefetch", "MultithreadPrefetch"))


def _propose_workers(graph: Graph, workers: int) -> tuple[str, Variant]:
    call = write_workers(graph, workers)
    if graph.of_kind("DataLoader", "NoWorkers"):
        return call, Variant(workers=workers)
    return f"{call} at the end", Variant(workers=workers, workers_last=True)


def _find_obstacle(graph: Graph) -> str:
    """Return why one mp_prefetch cannot run the whole pipeline in workers; "" if it can."""
    if any(node.parameters.get("device_put") for node in graph.nodes):
        return "the batches are put on a device by a call that would have to come after it"
    if any(node.uses_jax and not node.in_worker for node in graph.nodes):
        return "the pipeline calls jax, which does not belong in workers"
    if len(graph.of_kind("ProcessPrefetch")) > 1:
        return "there are several mp_prefetch calls, which cannot become one"
    return ""
