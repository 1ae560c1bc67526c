"""What limits reads that wait, from what they take with more and more in flight."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from netpipe.diagnosis.read_scaling import (
    BANDWIDTH,
    LATENCY,
    LEVELS,
    THROTTLING,
    Read,
    find_growth,
    name_limit,
    split_by_size,
)
from tests.diagnosis.made_reads import (
    READ_S,
    made_read,
    made_scaling,
    probe,
    spread_reads,
    times_of,
)

SIZES = (8_000, 12_000, 16_000, 20_000, 24_000, 28_000, 32_000)
ALIKE = (20_000,)
STORE = "object-store,latency=30ms,tail=90ms"


# --- growth


def test_reads_that_only_have_a_latency_do_not_grow() -> None:
    """64 reads at the same time take as long each as one does, however much they spread."""
    growth, alone, _ = probe(STORE, SIZES)
    assert growth == dict.fromkeys(LEVELS, 1.0)
    assert len(alone) > 300


@pytest.mark.parametrize(
    "limit", ["bandwidth=4MB/s", "rate=200/s,retry=0ms", "concurrent=8", "rate=200/s,retry=30ms"]
)
def test_reads_beyond_a_limit_grow(limit: str) -> None:
    """Four are within the limit, 16 share it, and 64 take several times as long as those."""
    growth, *_ = probe(f"{STORE},{limit}", SIZES)
    assert growth[4] == 1.0
    assert 1.5 < growth[16] < 4.0
    assert growth[64] > 2.0 * growth[16]


def test_growth_is_over_the_time_of_levels_that_do_not_differ() -> None:
    """The mean of the first two is the time alone, and not what the single-thread run took."""
    levels = {4: spread_reads(1, 150), 16: spread_reads(2, 150), 64: spread_reads(3, 192, 0.160)}
    growth, alone = find_growth(levels, 0.95 * READ_S)
    assert alone == times_of([*levels[4], *levels[16]])
    assert (growth[4], growth[16]) == (1.0, 1.0)
    assert growth[64] == pytest.approx(np.mean(times_of(levels[64])) / np.mean(alone))


def test_a_level_that_differs_by_chance_is_no_growth() -> None:
    """Reads that spread must differ by more than those that are alike."""
    more = {4: [made_read(READ_S)] * 150, 16: [made_read(1.08 * READ_S)] * 150}
    assert find_growth(more, READ_S)[0] == {4: 1.0, 16: pytest.approx(1.08)}
    spread = {4: spread_reads(1, 150), 16: spread_reads(2, 150, 1.08 * READ_S)}
    assert find_growth(spread, READ_S)[0] == {4: 1.0, 16: 1.0}


def test_growth_never_falls() -> None:
    """A level that is quicker than the one before has the mean of both, as that one has."""
    levels = {
        in_flight: [made_read(factor * READ_S)] * 150
        for in_flight, factor in zip(LEVELS, (1.0, 3.0, 2.0), strict=True)
    }
    assert find_growth(levels, READ_S)[0] == pytest.approx({4: 1.0, 16: 2.5, 64: 2.5})


@pytest.mark.parametrize(("cpu_s", "growth"), [(0.0, 4.0), (0.0018, 4.0), (0.0026, 1.0)])
def test_threads_that_wait_for_pythons_lock_are_no_growth(cpu_s: float, growth: float) -> None:
    """64 threads that compute 2.6 ms each take 166 ms in turns, whatever the storage does."""
    levels = {
        4: [made_read(READ_S)] * 150,
        16: [made_read(READ_S)] * 150,
        64: [replace(made_read(4 * READ_S), cpu_s=cpu_s)] * 192,
    }
    assert find_growth(levels, READ_S)[0][64] == pytest.approx(growth)


def test_without_a_level_alone_the_single_thread_run_is() -> None:
    """A storage that four reads saturate has been seen alone in that run."""
    levels = {in_flight: [made_read(in_flight * READ_S)] * 150 for in_flight in LEVELS}
    growth, alone = find_growth(levels, READ_S)
    assert growth == pytest.approx({4: 4.0, 16: 16.0, 64: 64.0})
    assert alone == [READ_S]


@pytest.mark.parametrize(
    ("in_flight", "growth"),
    [(1, 1.0), (2, 1.0), (4, 1.0), (16, 1.0), (32, 2.0), (64, 4.0), (256, 16.0)],
)
def test_a_saturated_storage_grows_between_and_beyond_the_levels(
    in_flight: int, growth: float
) -> None:
    """From where it is saturated, twice the reads take twice as long."""
    assert made_scaling((1.0, 1.0, 4.0)).growth_at(in_flight) == pytest.approx(growth)


@pytest.mark.parametrize(("in_flight", "growth"), [(5, 1.2), (8, 1.45), (10, 1.8125), (16, 2.9)])
def test_a_storage_between_two_levels_is_at_one_of_their_bounds(
    in_flight: int, growth: float
) -> None:
    """Where 16 take 2.9 times as long, six come at a time; four have taken 1.2 times as long."""
    assert made_scaling((1.2, 2.9, 11.6)).growth_at(in_flight) == pytest.approx(growth)


def test_threads_that_take_turns_need_less_cpu_time() -> None:
    """The factor is over the single-thread run, of the nearest level, and at most 1."""
    reads = [replace(made_read(), cpu_s=0.003)] * 3
    scaling = replace(made_scaling(reads=reads), alone_cpu_s=0.004)
    assert scaling.cpu_factor_at(4) == pytest.approx(0.75)
    assert scaling.cpu_factor_at(64) == 1.0  # not known
    assert replace(scaling, alone_cpu_s=0.001).cpu_factor_at(4) == 1.0


def test_a_storage_that_is_not_saturated_stays_as_it_is() -> None:
    """Beyond the most reads that were tried, nothing is known to slow them down."""
    assert made_scaling((1.0, 1.0, 1.2)).growth_at(1000) == pytest.approx(1.2)


def test_four_reads_may_grow_already() -> None:
    """One read alone has a growth of 1, even if four at once take longer than one after another."""
    assert made_scaling((4.0, 16.0, 64.0)).growth_at(1) == 1.0
    assert made_scaling((8.0, 16.0, 64.0)).growth_at(1) == 1.0
    assert made_scaling((4.0, 16.0, 64.0)).growth_at(2) == pytest.approx(2.0)


# --- what limits


@pytest.mark.parametrize(
    ("limit", "named"),
    [
        ("bandwidth=4MB/s", BANDWIDTH),
        ("rate=200/s,retry=0ms", THROTTLING),
        ("concurrent=8", THROTTLING),
        ("rate=200/s,retry=30ms", THROTTLING),
    ],
)
def test_records_of_different_sizes_tell_what_limits(limit: str, named: str) -> None:
    """A bandwidth passes fewer large records a second than small ones, a limit on requests not."""
    assert probe(f"{STORE},{limit}", SIZES)[2] == named


@pytest.mark.parametrize("limit", ["bandwidth=4MB/s", "rate=200/s,retry=0ms", "concurrent=8"])
def test_records_of_one_size_do_not_tell(limit: str) -> None:
    """Nothing is named then."""
    assert probe(f"{STORE},{limit}", ALIKE)[2] == ""


@pytest.mark.parametrize("rate", [100, 200, 400])
@pytest.mark.parametrize("retry", ["30ms", "100ms", "300ms"])
def test_refused_reads_show_even_with_records_of_one_size(rate: int, retry: str) -> None:
    """Some are served at once beside those that are refused and wait."""
    assert probe(f"{STORE},rate={rate}/s,retry={retry}", ALIKE)[2] == THROTTLING


@pytest.mark.parametrize("limit", ["bandwidth=4MB/s", "concurrent=8"])
def test_records_from_a_cache_do_not_tell(limit: str) -> None:
    """Records that are read again ten times as fast show the cache, and not the storage."""
    assert probe(f"{STORE},{limit}", SIZES, cached=0.1)[2] == ""


def test_sizes_may_not_be_known() -> None:
    """Elements whose source was not seen have no bytes, and divide nothing."""
    unseen = [Read(0, 4 * READ_S)] * 150
    assert name_limit(unseen, [READ_S], unseen, unseen) == ""


def test_elements_are_split_by_their_size() -> None:
    """The positions of the smaller half come first; the one in the middle may be missing."""
    reads = [Read(number, READ_S, READ_S, 1, size) for number, size in enumerate((5, 1, 4, 2, 3))]
    smaller, larger = split_by_size(reads)
    assert (set(smaller), set(larger)) == ({1, 3}, {2, 0})


# --- reads of the source, and larger records


def test_the_reads_of_an_element_are_those_of_its_source() -> None:
    """An element of four records makes four reads of a quarter of its bytes."""
    scaling = made_scaling(reads=[Read(0, 0.100, 0.080, 4, 40_000)] * 3)
    assert scaling.count_source_reads() == pytest.approx((0.020, 10_000, 4.0))


@pytest.mark.parametrize("source", [(0.0, 0, 0), (0.010, 1, 20_000)], ids=["unseen", "quick"])
def test_a_map_that_waits_has_no_reads_of_the_source(source: tuple[float, int, int]) -> None:
    """Where the source takes less than half of the time, its records are not what waits."""
    scaling = made_scaling(reads=[Read(0, READ_S, *source)] * 3)
    assert scaling.count_source_reads() == (0.0, 0.0, 0.0)
    assert scaling.larger_records_factor(8) is None


def sized(slope_s: float, sizes: Any = SIZES) -> list[Read]:
    """Return reads that take 30 ms, and some seconds for each byte."""
    return [made_read(0.030 + slope_s * size, size) for size in sizes]


@pytest.mark.parametrize(
    ("reads", "factor"),
    [
        ([made_read()] * 20, 1 / 8),
        (sized(0.0), 1 / 8),
        # 20 kB take 20 ms of 50 ms, which larger records do not save.
        (sized(1e-6), 0.4 + 0.6 / 8),
        # Half of the time and more is the transfer.
        (sized(2e-6), None),
        (sized(0.0, [size * 100 for size in SIZES]), None),
    ],
    ids=["alike", "latency", "with a transfer", "mostly a transfer", "large"],
)
def test_larger_records_take_the_latency_less_often(
    reads: list[Read], factor: float | None
) -> None:
    """An eighth of the reads has an eighth of the latency, and the same bytes to transfer."""
    found = made_scaling(reads=reads).larger_records_factor(8)
    assert found == (None if factor is None else pytest.approx(factor))


def test_larger_records_count_by_read_and_not_by_element() -> None:
    """Elements of four records have the slope of their reads."""
    fours = [
        Read(0, 4 * read.element_s, 4 * read.source_s, 4, 4 * read.source_bytes)
        for read in sized(1e-6)
    ]
    assert made_scaling(reads=fours).larger_records_factor(8) == pytest.approx(0.4 + 0.6 / 8)


def test_elements_without_a_read_do_not_count_for_larger_records() -> None:
    """Where sources are mixed, another one may make some of the elements."""
    reads = [*sized(1e-6), Read(0, 0.0)]
    assert made_scaling(reads=reads).larger_records_factor(8) == pytest.approx(0.4 + 0.6 / 8)


@pytest.mark.parametrize(
    ("limit", "helps"), [(LATENCY, True), (THROTTLING, True), (BANDWIDTH, False), ("", False)]
)
def test_larger_records_help_where_requests_are_what_counts(limit: str, helps: bool) -> None:
    """A bandwidth passes the same bytes in larger pieces, and nothing is promised if unsure."""
    assert (made_scaling(limit=limit).larger_records_factor(8) is not None) is helps


# --- order


@pytest.mark.parametrize("threads", [1, 4, 64])
def test_equal_reads_lose_nothing_in_order(threads: int) -> None:
    """Each is ready when those before it are."""
    assert made_scaling().ordering_factor(threads, threads, LEVELS[0]) == pytest.approx(
        1.0, abs=0.03
    )


def test_a_slow_read_holds_up_those_behind_it() -> None:
    """The smaller the buffer and the heavier the tail, the more; a large buffer loses little."""
    heavy = made_scaling(reads=spread_reads(0, 2000, sigma=1.0))
    light = made_scaling(reads=spread_reads(0, 2000, sigma=0.2))
    small, usual, large = (
        heavy.ordering_factor(16, buffer, LEVELS[0]) for buffer in (16, 64, 1000)
    )
    assert small > 2.0
    assert small > usual > large
    assert large == pytest.approx(1.0, abs=0.1)
    assert light.ordering_factor(16, 16, LEVELS[0]) < 1.5


def test_a_buffer_smaller_than_the_threads_leaves_some_idle() -> None:
    """Two elements ahead keep two of eight threads busy."""
    assert made_scaling().ordering_factor(8, 2, LEVELS[0]) == pytest.approx(4.0, rel=0.01)


def test_the_simulation_is_reproducible() -> None:
    """The same reads give the same factor."""
    spread = made_scaling(reads=spread_reads(5, 300))
    assert spread.ordering_factor(16, 32, LEVELS[0]) == spread.ordering_factor(16, 32, LEVELS[0])
