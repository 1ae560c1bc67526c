"""Comparison of work profiles: which counts rose, and their causes."""

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from netpipe.gate.outcomes import Comparison, Outcome
from netpipe.gate.work_comparison import ENOUGH_PROCESSES, compare_in_turns, compare_work
from netpipe.results.work_profile import WorkProfile, keep_own, keep_reproducible
from tests.work_profiles import CALLERS, PROFILE, make_profile, with_calls, with_count


def find(now: WorkProfile, kind: str, then: WorkProfile = PROFILE) -> Comparison:
    """Return the comparison of one kind."""
    return next(found for found in compare_work(now, then) if found.metric == kind)


def test_a_kind_that_was_not_counted_before_shows_no_rise() -> None:
    """It cannot be compared."""
    kinds = {name: parts for name, parts in PROFILE.counts.items() if name != "sent_bytes"}
    found = find(PROFILE, "sent_bytes", make_profile(counts=kinds))
    assert (found.outcome, found.shown_change) == (Outcome.NOT_COMPARED, "")


def test_equal_work_passes() -> None:
    """Every counted kind is compared, and none has risen."""
    compared = compare_work(PROFILE, PROFILE)
    assert {found.metric for found in compared} == set(PROFILE.counts)
    assert {found.outcome for found in compared} == {Outcome.PASS}


def test_one_more_call_names_the_function_that_is_called_more() -> None:
    """Functions below the cause are also called more, but are not named."""
    doubled = {
        **CALLERS,
        "rows.encode": {"rows.batch": 256.0},
        "builtins.len": {"rows.encode": 512.0, "rows.batch": 2.0},
    }
    found = find(with_calls(doubled), "calls")
    assert found.outcome is Outcome.REGRESSED
    assert found.worse_ratio == pytest.approx(771 / 387)
    assert not found.shown_change
    assert "rows.encode: 256 calls per batch instead of 128" in found.reason
    assert "builtins.len" not in found.reason


def test_a_cause_with_more_calls_below_it_comes_first() -> None:
    """The cause with more calls below it comes first, even if it is called less often."""
    grown = {
        **CALLERS,
        "rows.log": {"rows.encode": 128.0},
        "rows.sort": {"rows.batch": 1.0},
        "builtins.max": {"rows.sort": 9_000.0},
    }
    reason = find(with_calls(grown), "calls").reason
    assert reason.index("rows.sort: 1 call") < reason.index("rows.log: 128 calls")
    assert "builtins.max" not in reason


def test_one_call_of_thousands_is_seen() -> None:
    """A function that is called twice instead of once regresses, however small its share."""
    then = with_calls({"rows.batch": {"": 1.0}, "builtins.len": {"rows.batch": 5_200.0}})
    now = with_calls({"rows.batch": {"": 2.0}, "builtins.len": {"rows.batch": 5_200.0}})
    found = find(now, "calls", then)
    assert found.outcome is Outcome.REGRESSED
    assert "rows.batch: 2 calls" in found.reason
    assert "calls: 5202 calls per batch instead of 5201 calls" in found.reason
    assert found.shown_change == "+1 call in one part"


def test_a_rise_below_three_digits_is_no_rise_of_the_total() -> None:
    """Two totals that print the same digits are not shown as a change."""
    then = with_count("allocated_bytes", a=80_000_000.0, b=1_000.0)
    now = with_count("allocated_bytes", a=80_000_000.0, b=2_000.0)
    assert (
        "allocated_bytes: 80 MB per batch, as before; " in find(now, "allocated_bytes", then).reason
    )


def test_a_rise_within_the_bound_passes() -> None:
    """A rise of up to 1% passes."""
    assert find(with_count("sent_bytes", total=262_500.0), "sent_bytes").outcome is Outcome.PASS
    found = find(with_count("sent_bytes", total=263_000.0), "sent_bytes")
    assert found.outcome is Outcome.REGRESSED


def test_a_renamed_function_passes() -> None:
    """The same work under another name passes."""
    renamed = {
        "rows.batch": {"": 1.0},
        "rows.tokenize": {"rows.batch": 128.0},
        "builtins.len": {"rows.tokenize": 256.0, "rows.batch": 2.0},
    }
    assert find(with_calls(renamed), "calls").outcome is Outcome.PASS


def test_work_that_moved_passes() -> None:
    """Allocations may move from one function to another, except for a few bytes."""
    moved = with_count("allocated_bytes", rows__batch=2_000_004.0, rows__encode=1_000_000.0)
    assert find(moved, "allocated_bytes").outcome is Outcome.PASS


def test_less_work_improves_whatever_part_rose() -> None:
    """Fewer calls in total are an improvement, even if the calls of one function tripled."""
    now = {"rows.batch": {"": 1.0}, "rows.encode": {"rows.batch": 1.0}, "np.add": {"": 3.0}}
    assert find(with_calls(now), "calls").outcome is Outcome.IMPROVED


def test_another_dtype_is_named() -> None:
    """The message names the array that grew, with both shapes."""
    wider = make_profile(
        counts={**PROFILE.counts, "batch_bytes": {"tokens": 1_048_576.0}},
        arrays={"tokens": "int64[128,1024]"},
    )
    reason = find(wider, "batch_bytes").reason
    assert "tokens takes 1.05 MB of a batch instead of 524 kB" in reason
    assert "int64[128,1024] instead of int32[128,1024]" in reason


def test_work_where_there_was_none_regresses() -> None:
    """A rise from zero has no finite factor."""
    then = with_count("sent_bytes", total=0.0)
    found = find(PROFILE, "sent_bytes", then)
    assert found.outcome is Outcome.REGRESSED
    assert found.worse_ratio is None
    assert find(then, "sent_bytes", then).outcome is Outcome.PASS


def with_range(low: float, high: float, **changes: Any) -> WorkProfile:
    """Return a profile in which `rows.encode` has 2 MB, and `rows.batch` differs by process."""
    return make_profile(
        counts={**PROFILE.counts, "allocated_bytes": {"rows.encode": 2e6}},
        dropped={"allocated_bytes": {"rows.batch": (low, high)}},
        **changes,
    )


@pytest.mark.parametrize(
    ("range_now", "range_before", "outcome"),
    [
        ((1_000_000.0, 1_200_000.0), (900_000.0, 1_100_000.0), Outcome.NOT_COMPARED),
        ((1_000_000.0, 1_002_000.0), (1_001_000.0, 1_003_000.0), Outcome.PASS),
        ((1_200_000.0, 1_300_000.0), (900_000.0, 1_100_000.0), Outcome.REGRESSED),
        ((500_000.0, 600_000.0), (900_000.0, 1_100_000.0), Outcome.IMPROVED),
    ],
)
def test_a_part_that_is_not_reproducible_has_a_range(
    range_now: tuple[float, float], range_before: tuple[float, float], outcome: Outcome
) -> None:
    """A range has risen or fallen if all of it has; overlapping ranges may hide a change."""
    now, then = (
        with_range(*ends, processes=ENOUGH_PROCESSES) for ends in (range_now, range_before)
    )
    assert find(now, "allocated_bytes", then).outcome is outcome


def test_a_rise_in_a_part_that_is_left_out_does_not_pass() -> None:
    """A fifth more calls, all in a function that differs between processes, is NOT_COMPARED."""
    then, now = (
        make_profile(
            counts={**PROFILE.counts, "calls": {"rows.batch": 1.0}},
            dropped={"calls": {"rows.encode": ends}},
        )
        for ends in ((400.0, 571.0), (480.0, 690.0))
    )
    found = find(now, "calls", then)
    assert found.outcome is Outcome.NOT_COMPARED
    assert "rows.encode (480 calls to 690 calls, before 400 calls to 571 calls)" in found.reason
    assert "as before" not in found.reason


def test_only_compared_parts_are_as_before() -> None:
    """A small part that differs between processes is named, and is not in the totals."""
    found = find(with_range(9e3, 11e3), "allocated_bytes", with_range(10e3, 12e3))
    assert found.outcome is Outcome.PASS
    assert (found.now, found.then) == (2e6, 2e6)
    assert found.reason == (
        "allocated_bytes: 2 MB per batch, as before; not compared: processes of the same code "
        "differ in rows.batch (9 kB to 11 kB, before 10 kB to 12 kB)"
    )


def test_a_kind_is_judged_by_its_reproducible_parts() -> None:
    """A rise in a reproducible part regresses, however much another part may have fallen."""
    then = with_range(1e6, 2e6, processes=ENOUGH_PROCESSES)
    counts = {**then.counts, "allocated_bytes": {"rows.encode": 2.1e6}}
    found = find(replace(then, counts=counts), "allocated_bytes", then)
    assert found.outcome is Outcome.REGRESSED
    assert "rows.encode allocates 2.1 MB per batch instead of 2 MB" in found.reason


@pytest.mark.parametrize(
    ("highest", "outcome"), [(1.3e6, Outcome.NOT_COMPARED), (1.15e6, Outcome.IMPROVED)]
)
def test_a_fall_may_be_undone_by_a_part_that_is_left_out(highest: float, outcome: Outcome) -> None:
    """A fall is an improvement only if it is larger than the rise that may be hidden."""
    then, now = (with_range(1e6, high, processes=ENOUGH_PROCESSES) for high in (1.1e6, highest))
    counts = {**now.counts, "allocated_bytes": {"rows.encode": 1.8e6}}
    assert find(replace(now, counts=counts), "allocated_bytes", then).outcome is outcome


@pytest.mark.parametrize("processes", [2, ENOUGH_PROCESSES - 1])
def test_ranges_of_few_processes_do_not_decide(processes: int) -> None:
    """Ranges that lie apart are INCONCLUSIVE, and open, until enough processes have counted."""
    now, then = with_range(1.2e6, 1.3e6, processes=processes), with_range(0.9e6, 1.1e6, processes=8)
    for pair in ((now, then), (then, now)):
        (found,) = (each for each in compare_work(*pair) if each.metric == "allocated_bytes")
        assert (found.outcome, found.is_open) == (Outcome.INCONCLUSIVE, True)
        assert "8 processes of each version, side by side, would decide" in found.reason


def test_ranges_do_not_decide_against_a_baseline() -> None:
    """Its processes ran at another time, so more of them would not decide either."""
    now, then = with_range(1.2e6, 1.3e6, processes=8), with_range(0.9e6, 1.1e6, processes=8)
    compared = {found.metric: found for found in compare_work(now, then, "0001_first.json")}
    found = compared["allocated_bytes"]
    assert (found.outcome, found.is_open) == (Outcome.INCONCLUSIVE, False)
    assert compared["calls"].outcome is Outcome.PASS


def test_what_became_unstable_and_doubled_regresses() -> None:
    """A part that was exact before is compared with the low end of its new range."""
    now = make_profile(
        counts={**PROFILE.counts, "calls": {"rows.batch": 1.0, "builtins.len": 258.0}},
        dropped={"calls": {"rows.encode": (256.0, 260.0)}},
        processes=8,
    )
    found = find(now, "calls", make_profile(processes=8))
    assert found.outcome is Outcome.REGRESSED
    assert "rows.encode: 256 calls per batch instead of 128 calls" in found.reason


@pytest.mark.parametrize(("baseline", "outcome"), [("", "INCONCLUSIVE"), ("a.json", "REGRESSED")])
def test_a_count_beside_other_threads_may_be_equal_by_chance(baseline: str, outcome: str) -> None:
    """Side by side, more processes show whether they are; a baseline has no more of them."""
    now = replace(with_count("sent_bytes", total=270_000.0), tasks_beside=1)
    compared = {found.metric: found for found in compare_work(now, PROFILE, baseline)}
    assert compared["sent_bytes"].outcome.value == outcome
    assert compared["calls"].outcome is Outcome.PASS


@pytest.mark.parametrize(
    ("low", "outcome"), [(1.0e6, Outcome.INCONCLUSIVE), (1.09e6, Outcome.REGRESSED)]
)
def test_a_rise_of_a_random_loader_takes_more_processes(low: float, outcome: Outcome) -> None:
    """Two processes may agree by chance if other work differs by more than 1%."""
    then = with_range(low, 1.1e6)
    now = replace(then, counts={**then.counts, "sent_bytes": {"": 300_000.0}})
    assert find(now, "sent_bytes", then).outcome is outcome


class Version:
    """A version with a random count: the count of each process, and the seeds of those so far."""

    def __init__(
        self, *amounts: float, other: Callable[[], float] = lambda: 1.0, has_seed: bool = True
    ) -> None:
        self.amounts, self.seeds, self.other = list(amounts), list[str](), other
        self.not_counted = {} if has_seed else {"contents": "processes differ"}

    def count(self, hash_seeds: Sequence[str] = ("0", "1")) -> WorkProfile:
        """Count in one more process for each seed."""
        self.seeds += hash_seeds
        profiles = (
            with_count("allocated_bytes", noise=self.amounts.pop(0), other=self.other())
            for _ in hash_seeds
        )
        found = keep_reproducible([replace(profile, processes=1) for profile in profiles])
        return replace(found, not_counted=self.not_counted)


def compare_versions(now: Version, then: Version) -> Outcome:
    """Compare two versions as `netpipe work` does."""
    _, compared = compare_in_turns(now.count(), then.count(), now.count, then.count)
    return next(found for found in compared if found.metric == "allocated_bytes").outcome


@pytest.mark.parametrize(
    ("now", "then", "processes", "outcome"),
    [
        ([5, 5], [5, 5], 2, Outcome.PASS),
        ([6, 6], [5, 5], 2, Outcome.REGRESSED),
        ([4, 5], [5, 6], 2, Outcome.NOT_COMPARED),
        ([6, 7, 4], [4, 5, 5], 3, Outcome.NOT_COMPARED),
        ([6, 7, 6, 7, 6, 7, 6, 7], [4, 5, 4, 5, 4, 5, 4, 5], 8, Outcome.REGRESSED),
    ],
)
def test_more_processes_count_only_what_may_have_changed(
    now: list[float], then: list[float], processes: int, outcome: Outcome
) -> None:
    """Two processes are enough for reproducible counts, and for ranges that overlap."""
    versions = Version(*now), Version(*then)
    assert compare_versions(*versions) is outcome
    for version in versions:
        assert version.seeds == [str(seed) for seed in range(processes)]
        assert not version.amounts


@pytest.mark.parametrize("spread", [0.05, 0.5])
def test_equal_random_counts_are_not_a_change(spread: float) -> None:
    """Equal random counts raise no alarm; some comparisons take more processes."""
    drawn = random.Random(0)

    def draw() -> float:
        return 1_000 * drawn.uniform(1, 1 + spread)

    pairs = [
        [Version(*(draw() for _ in range(ENOUGH_PROCESSES)), other=draw) for _ in range(2)]
        for _ in range(150)
    ]
    assert {compare_versions(*pair) for pair in pairs} <= {Outcome.NOT_COMPARED, Outcome.PASS}
    assert 30 < sum(len(now.seeds) > 2 for now, _ in pairs) < 100


@pytest.mark.parametrize("chance", [0.2, 0.5])
def test_a_rare_branch_of_an_unseeded_loader_is_not_a_change(chance: float) -> None:
    """Two processes of each version often agree by chance; four rarely do."""
    drawn, found = random.Random(0), Counter[Outcome]()
    for _ in range(500):
        pair = [
            Version(*(5 + (drawn.random() < chance) for _ in range(8)), has_seed=False)
            for _ in range(2)
        ]
        found[compare_versions(*pair)] += 1
    assert found[Outcome.REGRESSED] + found[Outcome.IMPROVED] <= 6  # 30 and more with two processes
    seedless = [Version(*[amount] * 8, has_seed=False) for amount in (6, 5)]
    assert compare_versions(*seedless) is Outcome.REGRESSED
    assert [version.seeds for version in seedless] == [["0", "1", "2", "3"]] * 2


def test_a_random_count_that_rises_by_more_than_its_spread_regresses() -> None:
    """A quarter more is found, although the count differs by a fifth between processes."""
    drawn = random.Random(0)
    for _ in range(5):
        now, then = (
            Version(*(factor * drawn.uniform(1, 1.2) for _ in range(ENOUGH_PROCESSES)))
            for factor in (1_250, 1_000)
        )
        assert compare_versions(now, then) is Outcome.REGRESSED


@pytest.mark.parametrize(
    ("now_s", "then_s", "times"),
    [
        (0.030, 0.015, "30 ms of CPU time instead of 15 ms"),
        (0.0151, 0.010, "15.1 ms"),
        (0.0149, 0.010, ""),
        (0.0020, 0.0015, ""),
        (0.0010, 0.0002, "1 ms"),
        (0.0007, 0.0002, ""),
        (0.030, 0.0, ""),
    ],
)
def test_a_rise_of_cpu_time_is_remarked_on(now_s: float, then_s: float, times: str) -> None:
    """Half as much again, and at least 10 ms over the 16 batches, is worth a remark."""
    now, then = (make_profile(cpu_s_per_batch=each) for each in (now_s, then_s))
    reason = find(now, "calls", then).reason
    assert times in reason
    assert ("; but a batch took" in reason) is bool(times)
    assert "a batch took" not in compare_work(now, then, "0001_first.json")[0].reason


@pytest.mark.parametrize(
    ("now", "kind", "why_not"),
    [
        (make_profile(fingerprint="other"), "calls", "other data or another configuration"),
        (make_profile(batches=8), "calls", "it was counted over 16 batches, now over 8"),
        (
            make_profile(counts={}, not_counted={"calls": "forbidden"}),
            "calls",
            "it was not counted now: forbidden",
        ),
        (
            make_profile(counts={"sent_bytes": {}}, dropped={"sent_bytes": {"": (2e5, 3e5)}}),
            "sent_bytes",
            "processes of the same code differ in it (200 kB to 300 kB, before 260 kB to 260 kB)",
        ),
        (
            with_count("step_flops", total=1.0),
            "step_flops",
            "it was not counted before: it has none of this kind",
        ),
        (
            make_profile(
                counts={"step_flops": {"": 1.0}}, step_backend="jaxlib 0.10.2, NVIDIA H100"
            ),
            "step_flops",
            "another step backend (none)",
        ),
    ],
)
def test_what_cannot_be_compared_says_why(now: WorkProfile, kind: str, why_not: str) -> None:
    """A kind that cannot be compared is NOT_COMPARED, never PASS."""
    found = find(now, kind)
    assert found.outcome is Outcome.NOT_COMPARED
    assert why_not in found.reason


def test_many_causes_are_counted() -> None:
    """Five causes are named, and the rest are counted."""
    now = {**CALLERS, **{f"rows.f{n}": {"rows.batch": 1.0 + n} for n in range(8)}}
    reason = find(with_calls(now), "calls").reason
    assert "rows.f7: 8 calls" in reason
    assert "rows.f2" not in reason
    assert reason.endswith("and 3 more")


def test_a_few_bytes_more_pass() -> None:
    """A rise from 7 to 60 bytes per batch passes."""
    then, now = with_count("read_bytes", total=7.0), with_count("read_bytes", total=60.0)
    assert find(now, "read_bytes", then).outcome is Outcome.PASS


def test_a_small_array_that_doubles_regresses() -> None:
    """Eight labels in a wider dtype take more bytes."""
    then, now = with_count("batch_bytes", labels=32.0), with_count("batch_bytes", labels=64.0)
    assert find(now, "batch_bytes", then).outcome is Outcome.REGRESSED


@pytest.mark.parametrize("now", [15, 60])
def test_an_epoch_of_another_length_has_a_ratio_above_1(now: int) -> None:
    """A shorter epoch is as bad as a longer one, so a waiver's bound limits both."""
    found = find(make_profile(epoch_batches=now), "epoch_batches", make_profile(epoch_batches=30))
    assert found.outcome is Outcome.REGRESSED
    assert found.worse_ratio == 2.0


def test_a_long_chain_of_risen_calls_is_explained_quickly() -> None:
    """Two thousand functions in a chain are one cause."""
    names = [f"rows.f{number}" for number in range(2_000)]
    callers = dict(zip(names, ["", *names], strict=False))
    then, now = (
        with_calls({name: {caller: calls} for name, caller in callers.items()})
        for calls in (1.0, 2.0)
    )
    assert find(now, "calls", then).reason.count(";") == 1


@pytest.mark.parametrize(("now", "then"), [(30, None), (None, 30), (1, 12)])
def test_an_epoch_that_shrinks_or_grows_regresses(now: int | None, then: int | None) -> None:
    """This holds if only one epoch ends within 64 batches, and if a short one limits the count."""
    made = [
        make_profile(epoch_batches=each, contents=("digest",), batches=min(16, each or 16))
        for each in (now, then)
    ]
    found = find(made[0], "epoch_batches", made[1])
    assert found.outcome is Outcome.REGRESSED
    assert (found.worse_ratio or 0) > 1
    words = ["at least 64 batches" if each is None else f"{each} batch" for each in (now, then)]
    assert all(word in found.reason for word in words)


@pytest.mark.parametrize(
    "unknown",
    [
        {"contents": ("digest",), "not_counted": {"epoch_batches": "unstable"}},
        {"contents": ()},  # by an older version
    ],
)
def test_an_epoch_that_was_not_counted_decides_nothing(unknown: dict[str, Any]) -> None:
    """Only a loader that gave 64 batches without ending has an epoch of at least 64."""
    then = make_profile(epoch_batches=None, **unknown)
    found = find(make_profile(epoch_batches=30, contents=("digest",)), "epoch_batches", then)
    assert found.outcome is Outcome.NOT_COMPARED


def test_a_kind_that_only_a_newer_version_counts_is_left_out() -> None:
    """Its baseline can still be compared in all other kinds."""
    newer = make_profile(counts={**PROFILE.counts, "new": {"": 1.0}}, dropped={"new": {"": (1, 2)}})
    assert newer.kinds == PROFILE.kinds
    assert [each.kinds for each in keep_own([PROFILE, newer], {"grain"})] == [PROFILE.kinds] * 2
