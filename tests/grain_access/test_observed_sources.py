"""Sources whose reads pass through a function."""

import operator
import pickle
from collections.abc import Sequence
from typing import Any

import grain
import pytest

from netpipe.grain_access.observed_sources import ObservedSource, observe_source, observed_sources

ALONE = grain.ReadOptions(num_threads=0, prefetch_buffer_size=0)


class Tens:
    """A source of ten numbers."""

    def __len__(self) -> int:
        return 10

    def __getitem__(self, index: int) -> int:
        return 10 * index


class BatchedTens(Tens):
    """A source of which Grain reads several numbers at once."""

    def _getitems(self, indices: Sequence[int]) -> list[int]:
        return [10 * index for index in indices]


@pytest.mark.parametrize("source", [Tens(), BatchedTens()])
def test_an_observed_source_has_the_methods_of_the_source(source: Any) -> None:
    """Reads are observed in a worker too: Grain asks the class for batched reads."""
    observed = pickle.loads(pickle.dumps(observe_source(source, operator.call)))
    assert (len(observed), observed[3]) == (10, 30)
    reads_batches = hasattr(source, "_getitems")
    assert hasattr(type(observed), "_getitems") is reads_batches
    if reads_batches:
        assert observed._getitems([1, 2]) == [10, 20]


@pytest.mark.parametrize(("source", "indices"), [(Tens(), [0, 1]), (BatchedTens(), [[0, 1]])])
def test_each_read_of_a_pipeline_is_observed(source: Any, indices: list[Any]) -> None:
    """A batched read of Grain counts as one; afterwards the pipeline has its own source."""
    seen: list[Any] = []

    def observe(read: Any, index: Any) -> Any:
        seen.append(index)
        return read(index)

    numbers = grain.MapDataset.source(source)
    with observed_sources(numbers, observe):
        assert isinstance(numbers._source, ObservedSource)
        assert list(numbers._getitems([0, 1])) == [0, 10]
    assert seen == indices
    assert numbers._source is source
