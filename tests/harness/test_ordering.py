"""The rules on pipelines that break them and on pipelines that do not."""

import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

import grain
import jax
import jsonschema
import pytest

import netpipe
from netpipe.harness.errors import MisuseError
from netpipe.harness.ordering import INTENTS, LintFinding, lint

NO_THREADS = grain.ReadOptions(num_threads=0, prefetch_buffer_size=1)


class Unreadable:
    """A source whose elements must not be read."""

    def __len__(self) -> int:
        """Claim some elements."""
        return 8

    def __getitem__(self, index: int) -> int:
        """Fail the test."""
        raise AssertionError(f"element {index} was read")


def increment(element: int) -> int:
    """Return the element's successor."""
    return element + 1


def random_increment(element: int, rng: Any) -> int:
    """Return the element plus a random bit."""
    return element + int(rng.integers(2))


def elements() -> Any:
    """An IterDataset that reads without threads."""
    return grain.MapDataset.source(Unreadable()).to_iter_dataset(NO_THREADS)


def in_workers(dataset: Any) -> Any:
    """The dataset behind mp_prefetch, two workers."""
    return dataset.mp_prefetch(grain.MultiprocessingOptions(2))


def found(dataset: Any, intent: str = "throughput") -> list[tuple[str, str]]:
    """Rule and severity of all findings."""
    return [(one.rule, one.severity) for one in lint(dataset, intent).findings]


def only(dataset: Any) -> LintFinding:
    """The single finding."""
    (finding,) = lint(dataset).findings
    return finding


@pytest.mark.parametrize("intent", INTENTS)
@pytest.mark.parametrize(
    "dataset",
    [
        in_workers(elements().map(increment).batch(4)),
        in_workers(grain.IterDataset.mix([elements(), elements()]).batch(4)),
        grain.IterDataset.mix([in_workers(elements().batch(4)), in_workers(elements().batch(4))]),
        elements().map(increment).batch(4),
        in_workers(elements().batch(4)).map(lambda batch: jax.device_put(batch)),
        grain.experimental.device_put(in_workers(elements().batch(4)), None),
        grain.experimental.ThreadPrefetchIterDataset(
            in_workers(elements().batch(4)), prefetch_buffer_size=2
        ),
    ],
    ids=["plain", "mix-below", "mix-above", "no-workers", "device_put", "grain-device_put", "tail"],
)
def test_a_pipeline_in_order_has_no_findings(dataset: Any, intent: str) -> None:
    """Everything below mp_prefetch, mixed or not, and at most device_put above it."""
    assert found(dataset, intent) == []


@pytest.mark.parametrize(
    ("intent", "severity"), [("throughput", "error"), ("reproducible", "info")]
)
def test_a_batch_after_mp_prefetch(intent: str, severity: str) -> None:
    """It is an error for throughput, and only a remark where batches must not change."""
    late = in_workers(elements()).batch(4)
    assert found(late, intent) == [("batch-after-mp-prefetch", severity)]
    assert found(in_workers(elements().batch(4)), intent) == []


def test_a_late_batch_names_the_pair_the_cost_and_the_call() -> None:
    """The finding says which nodes, what it costs and what to write instead."""
    report = lint(in_workers(elements()).batch(4))
    (finding,) = report.findings
    assert [report.graph.nodes[one].kind for one in finding.nodes] == ["Batch", "ProcessPrefetch"]
    assert finding.message.startswith("Batch comes after mp_prefetch")
    assert "1,874 instead of 51,073" in finding.cost
    assert ".batch(batch_size=4).mp_prefetch(...)" in finding.fix


def test_a_batch_after_a_mix_of_workers_is_after_mp_prefetch() -> None:
    """Branches with workers of their own do not put the batch into a worker."""
    mixed = grain.IterDataset.mix([in_workers(elements()), in_workers(elements())])
    assert found(mixed.batch(4)) == [("batch-after-mp-prefetch", "error")]


def test_a_map_after_mp_prefetch() -> None:
    """A plain map gains nothing there: an error for throughput, a warning otherwise."""
    late = in_workers(elements().batch(4)).map(increment)
    assert found(late) == [("map-after-mp-prefetch", "error")]
    assert found(late, "reproducible") == [("map-after-mp-prefetch", "warning")]
    assert f"Map of {__name__}.increment comes after mp_prefetch" in only(late).message


@pytest.mark.parametrize(
    "late",
    [
        in_workers(elements()).filter(increment),
        in_workers(elements()).seed(1).random_map(random_increment),
        in_workers(elements()).map_with_index(random_increment),
    ],
    ids=["filter", "random_map", "map_with_index"],
)
def test_what_depends_on_the_order_may_stand_after_mp_prefetch_on_purpose(late: Any) -> None:
    """Inside the workers its result would change with their number: then it is a remark."""
    assert found(late) == [("map-after-mp-prefetch", "error")]
    assert found(late, "reproducible") == [("map-after-mp-prefetch", "info")]


@pytest.mark.parametrize("intent", INTENTS)
def test_nested_mp_prefetch_is_an_error(intent: str) -> None:
    """Workers cannot start workers; the finding names the outer and the inner one."""
    report = lint(in_workers(in_workers(elements()).batch(4)), intent)
    (finding,) = report.findings
    assert (finding.rule, finding.severity) == ("nested-mp-prefetch", "error")
    outer, inner = (report.graph.nodes[one] for one in finding.nodes)
    assert (outer.kind, inner.kind) == ("ProcessPrefetch", "ProcessPrefetch")
    assert (outer.in_worker, inner.in_worker) == (False, True)


def test_nested_mp_prefetch_is_found_inside_a_mix() -> None:
    """One branch of a mix with workers, inside workers, is nested; side by side is not."""
    mixed = grain.IterDataset.mix([in_workers(elements()), elements()])
    assert found(in_workers(mixed)) == [("nested-mp-prefetch", "error")]


@pytest.mark.parametrize("intent", INTENTS)
def test_threads_in_workers_are_a_warning(intent: str) -> None:
    """Grain's default of 16 reading threads is named inside workers, and fine outside."""
    default = grain.MapDataset.source(Unreadable()).to_iter_dataset()
    assert found(in_workers(default.batch(4)), intent) == [("threads-in-workers", "warning")]
    assert found(default.batch(4), intent) == []
    finding = only(in_workers(default.batch(4)))
    assert "16 threads in each of the 2 workers" in finding.message
    assert ".to_iter_dataset(grain.ReadOptions(num_threads=0))" in finding.fix


def test_a_data_loaders_threads_are_set_where_it_takes_them() -> None:
    """The fix for a DataLoader names its argument, and its own order is right."""
    loader = grain.DataLoader(
        data_source=Unreadable(),
        sampler=grain.samplers.IndexSampler(8, grain.sharding.NoSharding(), seed=0),
        operations=[grain.transforms.Batch(2)],
        worker_count=2,
    )
    finding = only(loader)
    assert finding.rule == "threads-in-workers"
    assert "DataLoader(read_options=grain.ReadOptions(num_threads=0))" in finding.fix


def test_threads_under_nested_workers_are_named_once() -> None:
    """The warning goes with the worker that reads."""
    default = grain.MapDataset.source(Unreadable()).to_iter_dataset()
    report = lint(in_workers(in_workers(default)))
    nested, threads = report.findings
    assert threads.rule == "threads-in-workers"
    assert threads.nodes[0] == nested.nodes[1]


def test_a_loader_that_is_not_grains_has_a_remark_and_no_graph() -> None:
    """A generator is no error: the report says that there is nothing to read."""
    report = lint(batch for batch in range(3))
    (finding,) = report.findings
    assert (finding.rule, finding.severity, finding.nodes) == ("no-grain-graph", "info", ())
    assert "builtins.generator" in finding.message
    assert report.graph.nodes == ()


def test_an_unknown_intent_is_misuse() -> None:
    """The intents that exist are named."""
    with pytest.raises(MisuseError, match=r"one of throughput, reproducible\. Found: 'speed'"):
        lint(elements(), "speed")


@pytest.mark.parametrize(
    "dataset", [in_workers(in_workers(elements()).batch(4)).map(increment), iter(())]
)
def test_the_document_follows_its_schema(dataset: Any) -> None:
    """The JSON is valid, complete, and the same after a round trip."""
    schema = Path(netpipe.__file__).with_name("schemas") / "lint.1.json"
    document = lint(dataset).to_document()
    jsonschema.validate(document, json.loads(schema.read_text(encoding="utf-8")))
    assert json.loads(json.dumps(document)) == document
    assert document["grain_version"] == version("grain")
