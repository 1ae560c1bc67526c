"""Loaders that hold a Grain dataset, as kauldron's pipelines do."""

import re
from collections.abc import Iterator
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from typing import Any

import grain
import pytest

from netpipe.grain_access.loader_variants import (
    choose_workers,
    count_workers,
    single_thread_variant,
    with_workers,
)
from netpipe.grain_access.reader import find_held_datasets, make_loader, read_graph
from netpipe.jobs.targets import Factories
from netpipe.linting.lint_job import lint_loader
from netpipe.linting.lint_request import LintRequest
from netpipe.linting.linter import lint
from tests.linting.conftest import eight_cores as eight_cores
from tests.linting.rules.linting import elements, in_workers, numbers, only, source


class Wrapped:
    """An iterable object with attributes."""

    def __init__(self, **attributes: object) -> None:
        vars(self).update(attributes)

    def __iter__(self) -> Iterator[Any]:
        """Fail the test."""
        raise AssertionError("it was iterated")


class Lazy(Wrapped):
    """A loader that makes its dataset on demand."""

    @cached_property
    def _root_ds(self) -> grain.IterDataset:
        raise AssertionError("a property was run")

    @property
    def epochs(self) -> int:
        """Fail the test."""
        raise AssertionError("a property was run")


class Postponed(Wrapped):
    """The same loader, with annotations that are text."""

    @property
    def _root_ds(self) -> "grain.IterDataset":
        raise AssertionError("a property was run")


def test_a_dataset_in_an_attribute_is_judged() -> None:
    """The graph is that of the dataset, and the remark names the attribute."""
    late = in_workers(elements()).batch(4)
    report = lint(Wrapped(_root_ds=late, seed=3))
    kinds = [node.kind for node in report.graph.nodes]
    assert kinds == [node.kind for node in lint(late).graph.nodes]
    remark = only("no-grain-graph", report)
    assert (remark.severity, remark.nodes) == ("info", ())
    assert re.search(r"Wrapped,.* attribute _root_ds\b", remark.message)
    assert remark.fix.endswith("loader._root_ds")
    assert [finding.rule for finding in report.findings] == [
        "batch-after-mp-prefetch",
        "no-grain-graph",
    ]


def test_attributes_of_an_attribute_are_searched() -> None:
    """One level further is searched, and no deeper."""
    inner = Wrapped(ds=elements())
    assert list(find_held_datasets(Wrapped(pipeline=inner))) == ["pipeline.ds"]
    assert find_held_datasets(Wrapped(trainer=Wrapped(pipeline=inner))) == {}


def test_the_last_of_a_chain_is_taken() -> None:
    """A loader that also keeps the inputs of its dataset holds one pipeline."""
    first = source()
    last = first.to_iter_dataset().batch(4)
    assert find_held_datasets(Wrapped(_root_map_ds=first, _root_ds=last)) == {"_root_ds": last}


def test_several_datasets_are_named_and_none_is_guessed() -> None:
    """The message does not guess which of the datasets the loader reads."""
    report = lint(Wrapped(train=elements(), evaluation=elements()))
    assert not report.graph.nodes
    assert only("no-grain-graph", report).fix.endswith(": loader.train or loader.evaluation")


@pytest.mark.parametrize("kind", [Lazy, Postponed])
def test_a_property_is_named_and_not_run(kind: type[Wrapped]) -> None:
    """If the dataset is made on demand, the fix names the property."""
    report = lint(kind())
    assert not report.graph.nodes
    assert only("no-grain-graph", report).fix.endswith(": loader._root_ds")


@pytest.mark.parametrize(
    "loader", [3, iter([1]), object(), range(3), type("Slots", (), {"__slots__": ()})()]
)
def test_other_objects_hold_nothing(loader: object) -> None:
    """Built-in iterables and objects without attributes hold no datasets."""
    assert find_held_datasets(loader) == {}


def test_a_loader_that_holds_itself_ends() -> None:
    """Two levels are searched, even if attributes lead back."""
    loader = Wrapped()
    vars(loader)["itself"] = loader
    assert find_held_datasets(loader) == {}
    vars(loader)["ds"] = elements()
    assert len(lint(loader).graph.nodes) > 0


class Pipeline:
    """A loader that makes its dataset once, when it is iterated, as kauldron's pipelines do."""

    def __init__(self, processes: int = 2) -> None:
        self.processes = processes

    @cached_property
    def _root_map_ds(self) -> grain.MapDataset:
        return numbers()

    @cached_property
    def _root_ds(self) -> grain.IterDataset:
        made = self._root_map_ds.to_iter_dataset()
        return in_workers(made, self.processes).batch(4) if self.processes else made

    def __iter__(self) -> Iterator[Any]:
        return iter(self._root_ds)


def held_workers(loader: Any) -> int:
    """Return the worker processes of the dataset that a loader has made."""
    (dataset,) = find_held_datasets(loader).values()
    return count_workers(read_graph(dataset))


def test_a_session_of_lint_reads_a_dataset_made_on_demand(tmp_path: Path) -> None:
    """It has the lines that made it, and the remark names the property."""
    request = LintRequest(result=str(tmp_path / "result.json"))
    report = lint_loader(request, Factories(Pipeline), ExitStack())["lint"]
    remark = next(each for each in report["findings"] if each["rule"] == "no-grain-graph")
    assert "attribute _root_ds," in remark["message"]
    (late,) = (each for each in report["findings"] if each["rule"] == "batch-after-mp-prefetch")
    node = report["graph"][late["nodes"][0]]
    assert (node["kind"], "test_held_datasets.py" in node["made_at"]) == ("Batch", True)


@pytest.mark.parametrize("kind", [Lazy, Postponed])
def test_properties_that_fail_or_are_not_kept_are_left_alone(kind: type[Wrapped]) -> None:
    """Their datasets could not be read, or each iterator would make its own."""
    assert find_held_datasets(make_loader(kind)) == {}


def test_a_diagnosis_finds_the_same_dataset() -> None:
    """Its workers are known, and the loader itself runs with other numbers of them."""
    alone, graph = single_thread_variant(Pipeline)
    assert (graph.nodes, count_workers(graph)) == ((), 2)
    made = alone()
    assert isinstance(made, Pipeline)
    assert held_workers(made) == 0
    assert [len(batch) for batch in made] == [4, 4, 4, 4, 4, 2]
    assert held_workers(with_workers(Pipeline, graph, 3)()) == 3
    assert held_workers(choose_workers(Pipeline, 0, "a:b")()) == 0


def test_a_held_dataset_without_workers_is_diagnosed_as_it_is() -> None:
    """Workers can only be added behind a dataset, not behind a loader."""

    def loader() -> Pipeline:
        return Pipeline(0)

    assert single_thread_variant(loader)[0] is loader
