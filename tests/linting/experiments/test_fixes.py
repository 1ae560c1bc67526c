"""The fixes that are tried for each finding, and those that cannot be tried."""

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
PREFETCH_THREAD = Variant(thread_prefetch=True)


@pytest.mark.parametrize(
    ("rules", "nodes", "expected"),
    [
        (["threads-in-workers"], (), [Variant(read_threads=0)]),
        # Without threads there is no buffer.
        (["oversized-read-buffer", "threads-in-workers"], (), [Variant(read_threads=0)]),
        (["no-prefetch"], (), [PREFETCH_THREAD, Variant(workers=4, workers_last=True)]),
        # Nothing can be added behind a DataLoader.
        (["no-prefetch"], (DATA_LOADER,), [Variant(workers=4)]),
        # Workers cannot put anything on a device.
        (["no-prefetch"], (PUT,), [PREFETCH_THREAD]),
        (["no-workers"], (("NoWorkers", {}),), [Variant(workers=4)]),
        (["no-workers"], (), [Variant(workers=4, workers_last=True)]),
        (["too-many-workers"], (PREFETCH,), [Variant(workers=CORES)]),
        # Together, they start as many as there are cores.
        (["too-many-workers"], (PREFETCH, PREFETCH), [Variant(workers=CORES // 2)]),
        (["batch-after-mp-prefetch"], (PREFETCH,), [Variant(workers_last=True)]),
        (["map-after-mp-prefetch"], (PREFETCH,), [Variant(workers_last=True)]),
    ],
)
def test_each_rule_has_its_variants(
    rules: list[str], nodes: tuple[tuple[str, dict[str, Any]], ...], expected: list[Variant]
) -> None:
    """The variants depend on what the pipeline has: workers, a DataLoader, a device."""
    assert variants(*rules, nodes=nodes) == expected


def test_threads_in_the_training_process_are_replaced() -> None:
    """One thread that makes batches takes their place, unless something reads ahead already."""
    rule = "threads-in-training-process"
    assert variants(rule) == [Variant(read_threads=0, thread_prefetch=True)]
    for nodes in ((DATA_LOADER,), (("ThreadPrefetch", {}),)):
        assert variants(rule, nodes=nodes) == [Variant(read_threads=0)]
    assert not any(fix.overlaps for fix in fixes(rule))


@pytest.mark.parametrize("rule", ["oversized-read-buffer", "too-few-reads-in-flight"])
def test_what_is_tried_is_what_is_written(rule: str) -> None:
    """The threads and the buffer of the proposal are those of the variant."""
    (fix,) = fixes(rule)
    settings = f"num_threads={fix.variant.read_threads}"
    assert fix.change == (
        f"grain.ReadOptions({settings}, prefetch_buffer_size={fix.variant.read_buffer})"
    )


def test_a_data_loader_gets_workers_by_its_argument() -> None:
    """The proposal is the argument to write."""
    (fix,) = fixes("no-workers", nodes=(DATA_LOADER, ("NoWorkers", {})))
    assert (fix.change, fix.variant) == ("DataLoader(worker_count=4)", Variant(workers=4))


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
    """If workers cannot run everything after them, there is no variant, but a reason."""
    (fix,) = fixes("map-after-mp-prefetch", nodes=nodes, uses_jax=uses_jax)
    assert why in fix.why_not


def test_a_fix_that_overlaps_the_step_is_marked() -> None:
    """An added prefetch shows only beside a step; a changed one shows at full speed."""
    assert all(fix.overlaps for fix in fixes("no-prefetch", "no-workers"))
    assert not any(fix.overlaps for fix in fixes("threads-in-workers", "no-workers")[:1])
    assert not any(fix.overlaps for fix in fixes("no-prefetch", nodes=(PREFETCH,)))


def test_the_most_severe_finding_is_tried_first() -> None:
    """Several findings of a rule have one fix, and rules that are not about speed have none."""
    assert len(fixes("threads-in-workers", "shuffle-after-batch", "threads-in-workers")) == 1
    severities = {"no-workers": "info", "no-prefetch": "warning", "map-after-mp-prefetch": "error"}
    found = tuple(
        LintFinding(rule, severity, (), "", "")  # type: ignore[arg-type]  # they are severities
        for rule, severity in severities.items()
    )
    ordered = fixes_for(LintReport("throughput", "0.2.18", Graph(), found), CORES)
    rules = list(dict.fromkeys(fix.rule for fix in ordered))
    assert rules == ["map-after-mp-prefetch", "no-prefetch", "no-workers"]
