"""Which fixes are tried for which finding, and which cannot be."""

from typing import Any

import pytest

from netpipe.grain_access.dataset_variants import Variant
from netpipe.grain_access.nodes import Graph, Node
from netpipe.linting.experiments.fixes import Fix, fixes_for
from netpipe.linting.linter import LintReport
from netpipe.linting.rules.finding import LintFinding

CORES = 8


def fixes(
    *rules: str, nodes: tuple[tuple[str, dict[str, Any]], ...] = (), **node: Any
) -> list[Fix]:
    """The fixes of findings of some rules, on a graph of some nodes."""
    made = tuple(
        Node(number, kind, parameters, (), False, **node)
        for number, (kind, parameters) in enumerate(nodes)
    )
    found = tuple(LintFinding(rule, "warning", (), "", "") for rule in rules)
    return list(fixes_for(LintReport("throughput", "0.2.18", Graph(made), found), CORES))


def variants(*rules: str, nodes: tuple[tuple[str, dict[str, Any]], ...] = ()) -> list[Variant]:
    """The variants to try."""
    return [fix.variant for fix in fixes(*rules, nodes=nodes) if not fix.why_not]


PREFETCH = ("ProcessPrefetch", {"num_workers": 2})
DATA_LOADER: tuple[str, dict[str, Any]] = ("DataLoader", {})
PUT = ("Map", {"device_put": True})


def test_threads_are_taken_away() -> None:
    """Threads in workers are tried without."""
    assert variants("threads-in-workers") == [Variant(read_threads=0)]


def test_threads_in_the_training_process_are_replaced() -> None:
    """One thread that makes batches takes their place, unless something reads ahead already."""
    rule = "threads-in-training-process"
    assert variants(rule) == [Variant(read_threads=0, thread_prefetch=True)]
    for nodes in ((DATA_LOADER,), (("ThreadPrefetch", {}),)):
        assert variants(rule, nodes=nodes) == [Variant(read_threads=0)]
    assert not any(fix.overlaps for fix in fixes(rule))


def test_a_read_buffer_shrinks() -> None:
    """Where an element is a batch a few of them are enough, read by as many threads."""
    (fix,) = fixes("oversized-read-buffer")
    assert "num_threads=4, prefetch_buffer_size=4" in fix.change
    assert fix.variant == Variant(read_threads=4, read_buffer=4)


@pytest.mark.parametrize("rule", ["oversized-read-buffer", "too-few-reads-in-flight"])
def test_what_is_tried_is_what_is_written(rule: str) -> None:
    """The threads and the buffer of the proposal are those of the variant."""
    (fix,) = fixes(rule)
    settings = f"num_threads={fix.variant.read_threads}"
    assert fix.change == (
        f"grain.ReadOptions({settings}, prefetch_buffer_size={fix.variant.read_buffer})"
    )


def test_without_threads_there_is_no_buffer() -> None:
    """Threads that are taken away take their buffer with them."""
    assert variants("oversized-read-buffer", "threads-in-workers") == [Variant(read_threads=0)]


def test_a_prefetch_comes_from_a_thread_or_from_workers() -> None:
    """A pipeline that makes no batch ahead is tried both ways."""
    assert variants("no-prefetch") == [
        Variant(thread_prefetch=True),
        Variant(workers=4, workers_last=True),
    ]


def test_a_data_loader_gets_workers_by_its_argument() -> None:
    """Nothing can be added behind a DataLoader, which has a number of workers of its own."""
    assert variants("no-prefetch", nodes=(DATA_LOADER,)) == [Variant(workers=4)]
    (fix,) = fixes("no-workers", nodes=(DATA_LOADER, ("NoWorkers", {})))
    assert (fix.change, fix.variant) == ("DataLoader(worker_count=4)", Variant(workers=4))


def test_batches_on_a_device_are_prefetched_by_a_thread_alone() -> None:
    """Workers cannot put anything on a device."""
    assert variants("no-prefetch", nodes=(PUT,)) == [Variant(thread_prefetch=True)]


def test_a_call_without_workers_gets_some() -> None:
    """mp_prefetch with 0 workers is given some where it stands; without the call, at the end."""
    assert variants("no-workers", nodes=(("NoWorkers", {}),)) == [Variant(workers=4)]
    assert variants("no-workers") == [Variant(workers=4, workers_last=True)]


def test_workers_are_at_most_the_cores() -> None:
    """Too many workers become as many as there are cores."""
    assert variants("too-many-workers", nodes=(PREFETCH,)) == [Variant(workers=CORES)]


@pytest.mark.parametrize("rule", ["batch-after-mp-prefetch", "map-after-mp-prefetch"])
def test_workers_are_moved_to_the_end(rule: str) -> None:
    """What comes after mp_prefetch is tried below it."""
    assert variants(rule, nodes=(PREFETCH,)) == [Variant(workers_last=True)]


@pytest.mark.parametrize(
    ("nodes", "uses_jax", "why"),
    [
        ((PREFETCH, PUT), False, "on a device"),
        ((("Map", {}), PREFETCH), True, "calls jax"),
        ((PREFETCH, PREFETCH), False, "several mp_prefetch"),
    ],
)
def test_a_call_that_cannot_be_moved_has_a_reason(
    nodes: tuple[tuple[str, dict[str, Any]], ...], uses_jax: bool, why: str
) -> None:
    """Where workers cannot take all that comes after them there is no variant, but a reason."""
    (fix,) = fixes("map-after-mp-prefetch", nodes=nodes, uses_jax=uses_jax)
    assert why in fix.why_not


def test_each_rule_is_tried_once() -> None:
    """Several findings of a rule have one fix, and rules that are not about speed have none."""
    rules = ("threads-in-workers", "shuffle-after-batch", "threads-in-workers")
    assert len(fixes(*rules)) == 1


def test_a_fix_that_overlaps_the_step_is_marked() -> None:
    """A prefetch where there was none shows only beside a step; a change of one flat out."""
    assert all(fix.overlaps for fix in fixes("no-prefetch", "no-workers"))
    assert not any(fix.overlaps for fix in fixes("threads-in-workers", "no-workers")[:1])
    assert not any(fix.overlaps for fix in fixes("no-prefetch", nodes=(PREFETCH,)))


def test_the_most_severe_finding_is_tried_first() -> None:
    """The order of the rules decides among findings that are equally severe."""
    severities = {"no-workers": "info", "no-prefetch": "warning", "map-after-mp-prefetch": "error"}
    found = tuple(
        LintFinding(rule, severity, (), "", "")  # type: ignore[arg-type]  # they are severities
        for rule, severity in severities.items()
    )
    fixes = fixes_for(LintReport("throughput", "0.2.18", Graph(), found), CORES)
    rules = list(dict.fromkeys(fix.rule for fix in fixes))
    assert rules == ["map-after-mp-prefetch", "no-prefetch", "no-workers"]
