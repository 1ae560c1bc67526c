"""Loaders that end after one epoch, and without shuffles."""

from collections.abc import Callable
from typing import Any

import grain
import pytest
from grain.experimental import WindowShuffleIterDataset, WindowShuffleMapDataset

from netpipe.grain_access.loader_variants import with_one_epoch

Factory = Callable[..., Any]


def _repeat() -> Any:
    return grain.MapDataset.range(10).shuffle(seed=1).repeat()


def _sampler(*epochs: int | None) -> Factory:
    def make() -> Any:
        sampler = grain.samplers.IndexSampler(
            10, grain.sharding.NoSharding(), True, *epochs, seed=1
        )
        return grain.DataLoader(data_source=range(10), sampler=sampler, operations=[])

    return make


def _of_windows() -> Any:
    return WindowShuffleMapDataset(grain.MapDataset.range(10), window_size=5, seed=1).repeat(3)


def _of_windows_of_a_stream() -> Any:
    return WindowShuffleIterDataset(_repeat().to_iter_dataset(), window_size=5, seed=1)


def _with_parameters(*, num_epochs: int = 3, shuffle: bool = True) -> list[int]:
    return list(range(10))[:: -1 if shuffle else 1] * num_epochs


def _in_windows(window_size: int = 2) -> list[int]:
    assert window_size == 2
    return [1, 0, *range(2, 10)]


def _with_epochs(epochs: int | None = None, shuffle: object = "all") -> list[int]:
    return list(range(10))[:: -1 if shuffle else 1] * (epochs or 100)


@pytest.mark.parametrize(
    "loader",
    [
        _repeat, _sampler(), _sampler(None), _sampler(2), _of_windows, _of_windows_of_a_stream,
        _with_parameters, _with_epochs,
    ],
)  # fmt: skip
def test_an_epoch_has_each_element_once(loader: Factory) -> None:
    """Without shuffles, the elements come in the order of the source; Grain is unchanged then."""
    found = [int(each) for each in with_one_epoch(loader)()]
    assert sorted(found) == [*range(10)] != found
    assert [int(each) for each in with_one_epoch(loader, shuffles=False)()] == [*range(10)]
    assert len(grain.MapDataset.range(3).shuffle(seed=1).repeat(2)) == 6


def test_a_parameter_of_grains_shuffle_may_mean_something_else() -> None:
    """The length of a loader's own windows is not changed."""
    assert with_one_epoch(_in_windows, shuffles=False)() == [1, 0, *range(2, 10)]
