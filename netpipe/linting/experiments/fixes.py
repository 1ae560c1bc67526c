"""Findings whose fix can be tried without touching the user's code, and the variant to try."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from netpipe.linting.experiments.variants import Variant
from netpipe.linting.graph.nodes import Graph
from netpipe.linting.linter import LintReport
from netpipe.linting.rules.buffers import THREAD_PREFETCH

_MOST_WORKERS: Final = 4  # to begin with, where there were none: each one costs memory
_FEW: Final = 4  # threads, with a batch each: as the rule proposes
_THREADS: Final = "threads-in-workers"
_OWN_THREADS: Final = "threads-in-training-process"
_BUFFER: Final = "oversized-read-buffer"
_SEVERITIES: Final = ("error", "warning", "info")
_OVERLAPPING: Final = ("no-prefetch", "no-workers")
_READING_AHEAD: Final = ("ProcessPrefetch", "ThreadPrefetch", "MultithreadPrefetch")


@dataclass(frozen=True)
class Fix:
    """One change of a pipeline.

    Attributes:
        rule: The rule that found what it mends.
        change: The call to write instead.
        variant: The same for `build_variant`; None where it cannot be had without the user's code.
        why_not: What stands against it then.
        overlaps: Whether it lets loading go on while the trainer works, which only shows where
            somebody does not ask for the next batch at once.
    """

    rule: str
    change: str
    variant: Variant | None
    why_not: str = ""
    overlaps: bool = False


def fixes_for(report: LintReport, cores: int) -> tuple[Fix, ...]:
    """Return what to try, the gravest first: some rules have one fix, some two, most none.

    Args:
        report: What the rules found.
        cores: CPU cores that the process may use.
    """
    gravest_first = sorted(report.findings, key=lambda one: _SEVERITIES.index(one.severity))
    rules = dict.fromkeys(finding.rule for finding in gravest_first if finding.rule in _FIXES)
    if _THREADS in rules or _OWN_THREADS in rules:  # without threads there is no buffer
        rules.pop(_BUFFER, None)
    fixes = (fix for rule in rules for fix in _FIXES[rule](rule, report.graph, cores))
    ahead = _reads_ahead(report.graph)
    return tuple(replace(fix, overlaps=fix.rule in _OVERLAPPING and not ahead) for fix in fixes)


def _reads_ahead(graph: Graph) -> bool:
    return bool(graph.of_kind(*_READING_AHEAD))


def _without_threads(rule: str, _graph: Graph, _cores: int) -> Iterator[Fix]:
    yield Fix(rule, "grain.ReadOptions(num_threads=0)", Variant(read_threads=0))


def _without_own_threads(rule: str, graph: Graph, cores: int) -> Iterator[Fix]:
    """Propose one thread that makes batches instead of many that read elements."""
    if _is_data_loader(graph) or _reads_ahead(graph):
        yield from _without_threads(rule, graph, cores)
    else:
        change = f"grain.ReadOptions(num_threads=0), and {THREAD_PREFETCH} at the end"
        yield Fix(rule, change, Variant(read_threads=0, thread_prefetch=True))


def _small_buffer(rule: str, _graph: Graph, _cores: int) -> Iterator[Fix]:
    change = f"grain.ReadOptions(num_threads={_FEW}, prefetch_buffer_size={_FEW})"
    yield Fix(rule, change, Variant(read_threads=_FEW, read_buffer=_FEW))


def _some_prefetch(rule: str, graph: Graph, cores: int) -> Iterator[Fix]:
    if not _is_data_loader(graph):
        yield Fix(
            rule,
            f"{THREAD_PREFETCH} at the end",
            Variant(thread_prefetch=True),
        )
    if not _obstacle(graph):
        yield from _some_workers(rule, graph, cores)


def _some_workers(rule: str, graph: Graph, cores: int) -> Iterator[Fix]:
    workers = min(cores, _MOST_WORKERS)
    if _is_data_loader(graph):
        yield Fix(rule, f"grain.DataLoader(worker_count={workers})", Variant(workers=workers))
    elif graph.of_kind("NoWorkers"):
        yield Fix(rule, _call(workers), Variant(workers=workers))
    else:
        yield from _workers_last(rule, graph, f"{_call(workers)} at the end", workers)


def _as_many_as_cores(rule: str, graph: Graph, cores: int) -> Iterator[Fix]:
    change = f"grain.DataLoader(worker_count={cores})" if _is_data_loader(graph) else _call(cores)
    yield Fix(rule, change, Variant(workers=cores))


def _moved(rule: str, graph: Graph, _cores: int) -> Iterator[Fix]:
    yield from _workers_last(rule, graph, ".mp_prefetch(...) moved to the end", None)


def _workers_last(rule: str, graph: Graph, change: str, workers: int | None) -> Iterator[Fix]:
    obstacle = _obstacle(graph)
    variant = None if obstacle else Variant(workers=workers, workers_last=True)
    yield Fix(rule, change, variant, obstacle)


def _obstacle(graph: Graph) -> str:
    """Return why all below the end cannot go into the workers of one mp_prefetch; "" if it can."""
    if any(node.parameters.get("device_put") for node in graph.nodes):
        return "the batches are put on a device by a call that would have to come after it"
    if any(node.uses_jax and not node.in_worker for node in graph.nodes):
        return "the pipeline calls jax, which does not belong into workers"
    if len(graph.of_kind("ProcessPrefetch")) > 1:
        return "there are several mp_prefetch calls, which cannot become one"
    return ""


def _is_data_loader(graph: Graph) -> bool:
    return bool(graph.of_kind("DataLoader"))


def _call(workers: int) -> str:
    return f".mp_prefetch(grain.MultiprocessingOptions(num_workers={workers}))"


_FIXES: Final[Mapping[str, Callable[[str, Graph, int], Iterator[Fix]]]] = {
    _THREADS: _without_threads,
    _OWN_THREADS: _without_own_threads,
    _BUFFER: _small_buffer,
    "no-prefetch": _some_prefetch,
    "no-workers": _some_workers,
    "too-many-workers": _as_many_as_cores,
    "batch-after-mp-prefetch": _moved,
    "map-after-mp-prefetch": _moved,
}
