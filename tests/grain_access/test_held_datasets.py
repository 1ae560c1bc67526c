"""Loaders that hold a Grain dataset, as kauldron's pipelines do."""

import re
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import grain
import pytest

from netpipe.grain_access.reader import find_held_datasets
from netpipe.linting.linter import lint
from tests.linting.rules.linting import elements, in_workers, only, source


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
