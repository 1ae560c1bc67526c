"""Pipelines without one of their stages."""

import operator
import pickle
from typing import Any

import grain
import numpy as np
import pytest

from netpipe.grain_access.loader_variants import (
    KEPT,
    OneThread,
    Recorded,
    single_thread_variant,
    without_stage,
)
from netpipe.grain_access.observed_sources import ObservedSource
from netpipe.grain_access.reader import read_graph
from tests.diagnosis import loaders
from tests.diagnosis.loaders import ALONE, Numbers, double


class Calls:
    """A function that records its arguments."""

    def __init__(self) -> None:
        self.made: list[Any] = []

    def __call__(self, number: int) -> int:
        """Double a number."""
        self.made.append(number)
        return 2 * number


def number_of(loader: Any, kind: str) -> int:
    """Return the id of the only node of a kind."""
    (node,) = read_graph(loader()).of_kind(kind)
    return node.id


def test_a_function_is_called_a_few_times() -> None:
    """The first results of a function are repeated equally often."""
    calls = Calls()
    recorded = Recorded(calls)
    first = [recorded(number) for number in range(KEPT)]
    again = [recorded(number) for number in range(100, 100 + 2 * KEPT)]
    assert calls.made == list(range(KEPT))
    assert first == [0, 2, 4, 6]
    assert sorted(again) == sorted(2 * first)
    assert Recorded(lambda a, b=0: a + b)(1, b=2) == 3


def test_an_error_of_a_function_propagates() -> None:
    """An error is not recorded, and the next call computes again."""

    def fail(number: int) -> int:
        if number == 0:
            raise OSError("gone")
        return number

    recorded = Recorded(fail)
    with pytest.raises(OSError, match="gone"):
        recorded(0)
    assert recorded(1) == 1


def test_a_source_keeps_its_length() -> None:
    """Shuffles and epochs do not change."""
    source = ObservedSource(Numbers(), Recorded(operator.call))
    assert len(source) == 12
    assert [source[index] for index in range(KEPT)] == list(range(KEPT))
    assert {source[index] for index in range(12)} <= set(range(KEPT))


@pytest.mark.parametrize(
    "recorded", [Recorded(double), ObservedSource(Numbers(), Recorded(operator.call))]
)
def test_recorded_functions_can_be_sent_to_workers(recorded: Any) -> None:
    """Recorded functions keep their results."""
    ask = recorded if callable(recorded) else recorded.__getitem__
    given = [ask(number) for number in range(2 * KEPT + 1)]
    copy = pickle.loads(pickle.dumps(recorded))
    ask_copy = copy if callable(copy) else copy.__getitem__
    assert ask_copy(50) == ask(50)
    assert ask_copy(51) in given


@pytest.mark.parametrize(("kind", "calls"), [("Map", KEPT), ("Batch", 12)])
def test_a_stage_is_left_out_of_a_pipeline(kind: str, calls: int) -> None:
    """The pipeline gives the same number of batches, and the function is called a few times."""
    counted = Calls()

    def loader() -> Any:
        return grain.MapDataset.source(Numbers()).map(counted).to_iter_dataset(ALONE).batch(4)

    made = without_stage(loader, number_of(loader, kind))
    assert made is not None
    assert np.shape(list(made())) == (3, 4)
    assert len(counted.made) == calls


def test_a_single_thread_run_can_leave_out_a_stage() -> None:
    """The dataset is found within `OneThread`."""
    single_thread, _ = single_thread_variant(loaders.with_worker)
    pulled = single_thread()
    assert isinstance(pulled, OneThread)
    number = read_graph(pulled.dataset).of_kind("Map")[0].id
    made = without_stage(single_thread, number)
    assert made is not None
    assert len(list(made())) == 3


def test_a_stage_without_code_of_the_user_stays() -> None:
    """A reader has no function that could be replaced."""
    assert without_stage(loaders.plain, number_of(loaders.plain, "ToIter")) is None


def test_the_loader_itself_is_not_changed() -> None:
    """The loader's next dataset has all stages; one that is always the same cannot be changed."""
    made = without_stage(loaders.plain, number_of(loaders.plain, "Source"))
    assert made is not None
    assert {int(number) for batch in made() for number in batch} <= {0, 2, 4, 6}
    assert without_stage(loaders.shared, number_of(loaders.shared, "Map")) is None
    for loader in (loaders.plain, loaders.shared):
        assert [batch.tolist() for batch in loader()][-1] == [16, 18, 20, 22]
