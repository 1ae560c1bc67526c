"""The rules about the position of mp_prefetch."""

from typing import Any

import grain
import jax
import jax.numpy as jnp
import pytest

from netpipe.linting.lint_request import INTENTS
from netpipe.linting.linter import lint
from tests.linting.rules.linting import (
    OneToThree,
    by_intent,
    elements,
    in_workers,
    increment,
    kinds_of,
    only,
    severities,
    source,
    with_rng,
)

BATCH = "batch-after-mp-prefetch"
MAP = "map-after-mp-prefetch"
NESTED = "nested-mp-prefetch"
DEVICE_PUT = "device-put-before-mp-prefetch"


def by_place() -> Any:
    """Batches that are made before they are distributed."""
    return source().map(increment).batch(4).to_iter_dataset(grain.ReadOptions(num_threads=0))


@pytest.mark.parametrize("intent", INTENTS)
@pytest.mark.parametrize(
    "dataset",
    [
        in_workers(by_place()),
        grain.IterDataset.mix([in_workers(by_place(), 1), in_workers(by_place(), 1)]),
        in_workers(by_place()).map(lambda batch: jax.device_put(batch)),
        in_workers(by_place()).map(lambda batch: jax.tree.map(jnp.asarray, batch)),
        grain.experimental.device_put(in_workers(by_place()), None),
        grain.experimental.ThreadPrefetchIterDataset(
            in_workers(by_place()), prefetch_buffer_size=2
        ),
    ],
)
def test_a_pipeline_in_order_has_no_findings(dataset: Any, intent: str) -> None:
    """Everything runs before mp_prefetch, except code for the device."""
    assert severities(dataset, intent) == {}


def test_a_batch_after_mp_prefetch() -> None:
    """An error for throughput; the finding names both nodes and the call to write instead."""
    assert by_intent(in_workers(elements()).batch(4), BATCH) == ("error", "info")
    assert by_intent(in_workers(elements().batch(4)), BATCH) == (None, None)
    mixed = grain.IterDataset.mix([in_workers(elements()), in_workers(elements())])
    assert by_intent(mixed.batch(4), BATCH) == ("error", "info")
    report = lint(in_workers(elements()).batch(4))
    finding = only(BATCH, report)
    assert kinds_of(finding, report) == ["Batch", "ProcessPrefetch"]
    assert finding.message.startswith("Batch comes after mp_prefetch:")
    assert ".batch(batch_size=4).mp_prefetch(...)" in finding.fix


def test_a_batch_of_blocks_costs_less() -> None:
    """If the workers already send batches, joining them is a warning."""
    finding = only(BATCH, lint(in_workers(elements().batch(4)).batch(2)))
    assert finding.severity == "warning"
    assert "blocks" in finding.message


@pytest.mark.parametrize(
    ("late", "reproducible"),
    [
        (in_workers(elements().batch(4)).map(increment), "warning"),
        (in_workers(elements()).seed(1).random_map(with_rng), "warning"),
        (
            grain.experimental.ThreadPrefetchIterDataset(
                in_workers(elements().batch(4)), prefetch_buffer_size=2
            ).map(increment),
            "warning",
        ),
        (in_workers(elements()).filter(increment), "info"),
        (in_workers(elements()).map_with_index(with_rng), "info"),
        (grain.experimental.FlatMapIterDataset(in_workers(elements()), OneToThree()), "info"),
    ],
)
def test_a_map_after_mp_prefetch(late: Any, reproducible: str) -> None:
    """Info for reproducible if the result in the workers would depend on their number."""
    assert by_intent(late, MAP) == ("error", reproducible)


def test_only_the_first_late_node_is_named() -> None:
    """Later nodes can only move with it; a map is named by its function."""
    chain = in_workers(elements()).batch(4).map(increment)
    assert (by_intent(chain, BATCH), by_intent(chain, MAP)) == (("error", "info"), (None, None))
    assert "increment" in only(MAP, lint(in_workers(elements().batch(4)).map(increment))).message


@pytest.mark.parametrize("intent", INTENTS)
def test_nested_mp_prefetch_is_an_error(intent: str) -> None:
    """Workers cannot start workers; the finding names the outer and the inner one."""
    report = lint(in_workers(in_workers(by_place())), intent)
    finding = only(NESTED, report)
    outer, inner = (report.graph.nodes[number] for number in finding.nodes)
    assert finding.severity == "error"
    assert (outer.kind, inner.kind) == ("ProcessPrefetch", "ProcessPrefetch")
    assert (outer.in_worker, inner.in_worker) == (False, True)


def test_nested_mp_prefetch_is_found_inside_a_mix() -> None:
    """A batch between nested workers runs in a worker: only the nesting is wrong."""
    mixed = grain.IterDataset.mix([in_workers(elements()), elements()])
    assert by_intent(in_workers(mixed), NESTED) == ("error", "error")
    between = in_workers(in_workers(elements()).batch(4))
    assert by_intent(between, NESTED) == ("error", "error")
    assert by_intent(between, BATCH) == (None, None)


def test_device_put_before_mp_prefetch_is_an_error_and_the_only_one() -> None:
    """The unpicklable device and the call of jax are not reported separately."""
    on_device = grain.experimental.device_put(by_place(), jax.devices()[0])
    report = lint(in_workers(on_device))
    finding = only(DEVICE_PUT, report)
    assert kinds_of(finding, report) == ["ProcessPrefetch", "Map"]
    assert "after .mp_prefetch(...)" in finding.fix
    assert severities(in_workers(on_device)) == {DEVICE_PUT: "error"}
    in_map = in_workers(by_place().map(jax.device_put))
    assert by_intent(in_map, DEVICE_PUT) == ("error", "error")

    def put(batch: Any) -> Any:
        return jax.device_put(batch)

    # Several functions are one finding, which names each once, and all nodes.
    branches = [by_place().map(put) for _ in range(3)]
    report = lint(in_workers(grain.IterDataset.mix([*branches, by_place().map(jax.device_put)])))
    assert len(only(DEVICE_PUT, report).nodes) == 5
    assert only(DEVICE_PUT, report).message.count("<locals>.put") == 1


def test_the_proposed_batch_loses_no_more_than_the_users() -> None:
    """The MapDataset comes first, if it can do everything below, with the user's settings."""
    late = in_workers(elements(22)).batch(4, drop_remainder=True)
    call = ".batch(batch_size=4, drop_remainder=True)"
    fix = only(BATCH, lint(late)).fix
    assert f"{call}.to_iter_dataset(...)" in fix
    assert f"{call}.mp_prefetch(...)" in fix


@pytest.mark.parametrize(
    "below",
    [
        elements(22).filter(increment),
        source(22).filter(increment).to_iter_dataset(),
        grain.IterDataset.mix([elements(), elements()]),
    ],
)
def test_a_batch_that_no_map_dataset_can_make_moves_to_the_workers(below: Any) -> None:
    """The fix warns that each worker then drops its own remainder."""
    fix = only(BATCH, lint(in_workers(below).batch(4, drop_remainder=True))).fix
    assert "to_iter_dataset" not in fix
    assert "remainder, so repeat" in fix
