"""Pipelines to draw, and reports on them with the findings of a test."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

import grain

from netpipe.grain_access.nodes import Graph
from netpipe.grain_access.reader import read_graph
from netpipe.linting.linter import LintReport
from netpipe.linting.rules.finding import LintFinding, Severity

READ = grain.ReadOptions(num_threads=0, prefetch_buffer_size=1)

# The source line of each kind of node.
_LINES: Final = {"Source": 12, "Shuffle": 13, "Map": 14, "ToIter": 15, "Batch": 16, "Filter": 18}


class Probes:
    """A source whose elements must not be read."""

    def __len__(self) -> int:
        """Return a number of elements."""
        return 1000

    def __getitem__(self, index: int) -> int:
        """Fail the test."""
        raise AssertionError(f"element {index} was read")


def tokenize(element: int) -> int:
    """Return the element."""
    return element


def is_long(element: int) -> bool:
    """Return True."""
    return element >= 0


def source() -> Any:
    """A MapDataset."""
    return grain.MapDataset.source(Probes())


def read(dataset: Any) -> Any:
    """An IterDataset that reads without threads."""
    return dataset.to_iter_dataset(READ)


def in_workers(dataset: Any, workers: int = 2) -> Any:
    """The dataset behind mp_prefetch."""
    return dataset.mp_prefetch(grain.MultiprocessingOptions(workers))


def straight() -> Any:
    """A pipeline without branches, with one filter after the workers."""
    ordered = source().shuffle(seed=1).map(tokenize).to_iter_dataset()
    return in_workers(ordered.batch(32, drop_remainder=True)).filter(is_long)


def without_workers() -> Any:
    """A pipeline that runs entirely in the training process."""
    return read(source().map(tokenize)).batch(4)


def mix_of_workers() -> Any:
    """Three branches with workers of their own."""
    branches = [in_workers(read(source().map(tokenize)).batch(4), n) for n in (1, 2, 4)]
    return grain.IterDataset.mix(branches, [1, 1, 2])


def workers_of_mix() -> Any:
    """Two branches in the same workers."""
    branches = [read(source().shuffle(seed=seed)) for seed in (1, 2)]
    return in_workers(grain.IterDataset.mix(branches).batch(8))


def half_in_workers() -> Any:
    """A branch with workers and a longer one without."""
    other = read(source().shuffle(seed=1).map(tokenize)).filter(is_long).batch(4)
    return grain.IterDataset.mix([in_workers(read(source())), other]).map(tokenize)


def diamond() -> Any:
    """A node that is read twice."""
    base = source().map(tokenize)
    return read(grain.MapDataset.concatenate([base, base.shuffle(seed=1)]))


def shared_by_workers() -> Any:
    """A node that two sets of workers read."""
    base = source().map(tokenize)
    return grain.IterDataset.mix([in_workers(read(base.shuffle(seed=seed))) for seed in (1, 2)])


def nested_workers() -> Any:
    """Workers that would start workers."""
    inner = in_workers(read(source())).batch(3)
    return in_workers(grain.IterDataset.mix([inner, read(source().map(tokenize))]))


def twenty_nodes() -> Any:
    """A long chain of calls."""
    dataset = source().shuffle(seed=1)
    for _ in range(15):
        dataset = dataset.map(tokenize)
    return in_workers(read(dataset).batch(4))


def twice_the_same() -> Any:
    """A mix of a dataset with itself."""
    base = source()
    return grain.MapDataset.mix([base, base])


PIPELINES: Final[Mapping[str, Callable[[], Any]]] = {
    pipeline.__name__: pipeline
    for pipeline in (
        straight,
        without_workers,
        mix_of_workers,
        workers_of_mix,
        half_in_workers,
        diamond,
        shared_by_workers,
        nested_workers,
        twenty_nodes,
        twice_the_same,
    )
}


def report_on(
    dataset: Any, findings: Mapping[LintFinding, tuple[str, ...]] | None = None
) -> LintReport:
    """A report on a pipeline with findings on the nodes of some kinds and on no others."""
    nodes = [
        replace(node, made_at=f"loader.py:{_LINES[node.kind]}" if node.kind in _LINES else "")
        for node in read_graph(dataset).nodes
    ]
    placed = [
        replace(finding, nodes=tuple(node.id for node in nodes if node.kind in kinds))
        for finding, kinds in (findings or {}).items()
    ]
    return LintReport("throughput", "0.2.18", Graph(tuple(nodes)), tuple(placed))


def findings_of_all_severities() -> dict[LintFinding, tuple[str, ...]]:
    """An error on two calls, a warning and a remark on the same call, and one without a call."""
    return {
        _finding("map-after-mp-prefetch", "error"): ("Filter", "ProcessPrefetch"),
        _finding("large-capture", "info"): ("ToIter",),
        _finding("threads-in-workers", "warning"): ("ToIter",),
        _finding("unparsed-flags", "warning"): (),
    }


def _finding(rule: str, severity: Severity) -> LintFinding:
    return LintFinding(rule, severity, (), f"What {rule} says", f"How to mend {rule}")
