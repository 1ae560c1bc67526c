"""The arrays of batches, and the figures of runs."""

from math import inf

import numpy as np
import pytest

from netpipe.results.measurement import Interval
from netpipe.throughput.figures import (
    FIGURES,
    describe_arrays,
    most_behind,
    over_rounds,
    ratio,
    size_in_bytes,
)
from tests.throughput.tallies import make_tally


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("tokens_per_s", 2000),
        ("tokens_per_cpu_s", 1000),
        ("examples_per_s", 100),
        ("examples_per_cpu_s", 50),
        ("batches_per_s", 10),
        ("padding_fraction", 0.2),
        ("padding_fraction_worst_batch", 0.5),
        ("bytes_read_per_token", 2),
        ("peak_pss_bytes", 300_000_000),
        ("peak_rss_bytes", 400_000_000),
        ("first_batch_s", 1.5),
    ],
)
def test_a_figure_is_what_its_name_says(name: str, value: float) -> None:
    """A run of 4 s and 8 CPU seconds: 40 batches, 400 examples, 8000 tokens in 10,000 slots."""
    assert FIGURES[name](make_tally()) == pytest.approx(value)


def test_a_figure_is_the_median_over_rounds() -> None:
    """A figure is a median, whose interval does not go below 0."""
    runs = [make_tally(first_batch_s=seconds) for seconds in (3.0, 1.0, 8.0)]
    assert over_rounds("first_batch_s", runs) == Interval(3.0, 0.125, 64.0, 3)
    assert over_rounds("first_batch_s", runs[:1]) == Interval(3.0, 0.0, inf, 1)


def test_ratios_compare_runs_of_the_same_round() -> None:
    """A machine that slows down in a round slows both loaders, so their ratio stays."""
    ours = [make_tally(wall_s=wall_s) for wall_s in (1.0, 2.0, 4.0)]
    theirs = [make_tally(wall_s=10 * run.wall_s) for run in ours]
    found = ratio("tokens_per_s", ours, theirs)
    assert found is not None
    assert (found.low, found.median, found.high) == pytest.approx((10, 10, 10))


def test_there_is_no_ratio_to_zero() -> None:
    """The ratio is None if the other loader reads 0 bytes."""
    assert ratio("bytes_read_per_token", [make_tally()], [make_tally(bytes_read=0)]) is None


def test_the_arrays_of_a_batch_are_described_by_name() -> None:
    """Dicts, tuples and lists are followed in an order that does not depend on the dict's."""
    batch = {"y": (np.zeros(3, np.int8), 5), "x": [np.zeros((2, 4))]}
    described = describe_arrays(batch)
    assert described == {"x.0": "float64[2,4]", "y.0": "int8[3]", "y.1": "int[]"}
    assert list(described) == list(describe_arrays(dict(reversed(batch.items()))))
    assert describe_arrays(np.zeros(2)) == {"the batch": "float64[2]"}


@pytest.mark.parametrize(
    ("arrivals_s", "batches"),
    [
        ([1.0, 2.0, 3.0, 4.0], 1.0),
        ([2.0, 2.0, 4.0, 4.0], 2.0),
        ([0.5, 1.0, 1.5, 2.0, 7.0, 7.5, 8.0, 8.5, 9.0, 10.0], 5.0),
        ([5.0, 5.5, 6.0, 6.5, 7.0, 7.5, 8.0, 9.0, 9.5, 10.0], 5.0),
    ],
    ids=["evenly", "two-workers", "a-pause-after-a-lead", "a-pause-at-first"],
)
def test_a_buffer_must_hold_what_a_loader_falls_behind(
    arrivals_s: list[float], batches: float
) -> None:
    """A step at the mean pace of 1 s never waits if it begins with this many batches or more.

    Batches that came early were put into the buffer, which holds no more than it began with.
    """
    assert most_behind(arrivals_s) == pytest.approx(batches)


def test_the_size_of_a_batch_is_that_of_its_arrays() -> None:
    """Arrays count wherever they are, other leaves do not."""
    batch = {"inputs": np.zeros((2, 3), np.int32), "rest": [np.zeros(5, np.int8), "text"]}
    assert size_in_bytes(batch) == 24 + 5


class Tensor:
    """Has the attributes of torch's tensors: `size` is a method, and types have torch's names."""

    dtype = "torch.float32"
    shape = (2, 3)
    nbytes = 24

    def size(self) -> tuple[int, ...]:
        """Return the shape."""
        return self.shape


def test_tensors_count_as_arrays() -> None:
    """The types of tensors are those of equal arrays."""
    assert describe_arrays(Tensor()) == describe_arrays(np.zeros((2, 3), np.float32))
    assert size_in_bytes(Tensor()) == 24
