"""The growth of reads that wait, and what limits them, from made-up times."""

from dataclasses import replace

import numpy as np
import pytest

from netpipe.diagnosis.experiments.read_scaling import (
    BANDWIDTH,
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
    """64 reads at the same time take as long as one, however much their times vary."""
    growth, alone, _ = probe(STORE, SIZES)
    assert growth == dict.fromkeys(LEVELS, 1.0)
    assert len(alone) > 300


@pytest.mark.parametrize(
    "limit", ["bandwidth=4MB/s", "rate=200/s,retry=0ms", "concurrent=8", "rate=200/s,retry=30ms"]
)
def test_reads_beyond_a_limit_grow(limit: str) -> None:
    """Four reads are within the limit, 16 share it, and 64 take several times as long."""
    growth, *_ = probe(f"{STORE},{limit}", SIZES)
    assert growth[4] == 1.0
    assert 1.5 < growth[16] < 4.0
    assert growth[64] > 2.0 * growth[16]


def test_equal_levels_give_the_time_alone() -> None:
    """Levels that do not differ give the time alone, instead of the single-thread run."""
    levels = {4: spread_reads(1, 150), 16: spread_reads(2, 150), 64: spread_reads(3, 192, 0.160)}
    growth, alone = find_growth(levels, 0.95 * READ_S)
    assert alone == times_of([*levels[4], *levels[16]])
    assert (growth[4], growth[16]) == (1.0, 1.0)
    assert growth[64] == pytest.approx(np.mean(times_of(levels[64])) / np.mean(alone))


def test_a_difference_by_chance_is_not_growth() -> None:
    """Reads that vary must differ more than reads that are alike."""
    more = {4: [made_read(READ_S)] * 150, 16: [made_read(1.08 * READ_S)] * 150}
    assert find_growth(more, READ_S)[0] == {4: 1.0, 16: pytest.approx(1.08)}
    spread = {4: spread_reads(1, 150), 16: spread_reads(2, 150, 1.08 * READ_S)}
    assert find_growth(spread, READ_S)[0] == {4: 1.0, 16: 1.0}


def test_growth_never_falls() -> None:
    """A level that is quicker than the one before shares its mean with that."""
    levels = {
        in_flight: [made_read(factor * READ_S)] * 150
        for in_flight, factor in zip(LEVELS, (1.0, 3.0, 2.0), strict=True)
    }
    assert find_growth(levels, READ_S)[0] == pytest.approx({4: 1.0, 16: 2.5, 64: 2.5})


@pytest.mark.parametrize(("cpu_s", "growth"), [(0.0, 4.0), (0.0018, 4.0), (0.0026, 1.0)])
def test_waiting_for_the_lock_is_not_growth(cpu_s: float, growth: float) -> None:
    """64 threads that compute 2.6 ms each take 166 ms in turns, whatever the storage does."""
    levels = {
        4: [made_read(READ_S)] * 150,
        16: [made_read(READ_S)] * 150,
        64: [replace(made_read(4 * READ_S), cpu_s=cpu_s)] * 192,
    }
    assert find_growth(levels, READ_S)[0][64] == pytest.approx(growth)


def test_growth_may_be_over_the_single_thread_run() -> None:
    """A storage that four reads saturate was alone only in the single-thread run."""
    levels = {in_flight: [made_read(in_flight * READ_S)] * 150 for in_flight in LEVELS}
    growth, alone = find_growth(levels, READ_S)
    assert growth == pytest.approx({4: 4.0, 16: 16.0, 64: 64.0})
    assert alone == [READ_S]


@pytest.mark.parametrize(
    ("levels", "growth"),
    [
        # From saturation on, twice the reads take twice as long.
        ((1.0, 1.0, 4.0), {1: 1.0, 2: 1.0, 4: 1.0, 16: 1.0, 32: 2.0, 64: 4.0, 256: 16.0}),
        # Between two levels, one of their bounds holds.
        ((1.2, 2.9, 11.6), {5: 1.2, 8: 1.45, 10: 1.8125, 16: 2.9}),
        # Beyond the levels of a storage that is not saturated, nothing slows reads down.
        ((1.0, 1.0, 1.2), {1000: 1.2}),
        # One read has a growth of 1, even if four at once take longer than one after another.
        ((4.0, 16.0, 64.0), {1: 1.0, 2: 2.0}),
        ((8.0, 16.0, 64.0), {1: 1.0}),
    ],
)
def test_growth_is_known_at_any_number_of_reads(
    levels: tuple[float, ...], growth: dict[int, float]
) -> None:
    """It follows the asymptotic bounds of the nearest levels."""
    scaling = made_scaling(levels)
    assert {n: scaling.growth_at(n) for n in growth} == pytest.approx(growth)


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
    """A bandwidth passes fewer large records than small ones, unlike a limit on requests."""
    assert probe(f"{STORE},{limit}", SIZES)[2] == named


@pytest.mark.parametrize("limit", ["bandwidth=4MB/s", "rate=200/s,retry=0ms", "concurrent=8"])
def test_records_of_one_size_do_not_tell(limit: str) -> None:
    """The limit is not named."""
    assert probe(f"{STORE},{limit}", ALIKE)[2] == ""


@pytest.mark.parametrize("rate", [100, 200, 400])
@pytest.mark.parametrize("retry", ["30ms", "100ms", "300ms"])
def test_refused_reads_show_even_with_records_of_one_size(rate: int, retry: str) -> None:
    """Some reads are served at once beside others that are refused and wait."""
    assert probe(f"{STORE},rate={rate}/s,retry={retry}", ALIKE)[2] == THROTTLING


@pytest.mark.parametrize("limit", ["bandwidth=4MB/s", "concurrent=8"])
def test_records_from_a_cache_do_not_tell(limit: str) -> None:
    """Records that are read again ten times as fast come from a cache."""
    assert probe(f"{STORE},{limit}", SIZES, cached=0.1)[2] == ""


def test_sizes_may_not_be_known() -> None:
    """Elements whose source was not seen have no bytes, and nothing divides by 0."""
    unseen = [Read(0, 4 * READ_S)] * 150
    assert name_limit(unseen, [READ_S], unseen, unseen) == ""


def test_elements_are_split_by_their_size() -> None:
    """The smaller half comes first; the element in the middle may be missing."""
    reads = [Read(number, READ_S, READ_S, 1, size) for number, size in enumerate((5, 1, 4, 2, 3))]
    smaller, larger = split_by_size(reads)
    assert (set(smaller), set(larger)) == ({1, 3}, {2, 0})


# --- reads of the source


def test_the_reads_of_an_element_are_those_of_its_source() -> None:
    """An element of four records makes four reads of a quarter of its bytes."""
    scaling = made_scaling(reads=[Read(0, 0.100, 0.080, 4, 40_000)] * 3)
    assert scaling.count_source_reads() == pytest.approx((0.020, 10_000, 4.0))


@pytest.mark.parametrize("source", [(0.0, 0, 0), (0.010, 1, 20_000)], ids=["unseen", "quick"])
def test_a_map_that_waits_has_no_reads_of_the_source(source: tuple[float, int, int]) -> None:
    """A source that takes less than half of the time is not what waits."""
    scaling = made_scaling(reads=[Read(0, READ_S, *source)] * 3)
    assert scaling.count_source_reads() == (0.0, 0.0, 0.0)
