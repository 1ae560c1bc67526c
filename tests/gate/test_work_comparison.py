"""Comparison of work profiles: which counts rose, and their causes."""

import pytest

from netpipe.gate.outcomes import Comparison, Outcome
from netpipe.gate.work_comparison import compare_work
from netpipe.results.work_profile import WorkProfile
from tests.work_profiles import CALLERS, PROFILE, make_profile, with_calls, with_count


def find(now: WorkProfile, kind: str, then: WorkProfile = PROFILE) -> Comparison:
    """Return the comparison of one kind."""
    return next(found for found in compare_work(now, then) if found.metric == kind)


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


@pytest.mark.parametrize(
    ("range_now", "range_before", "outcome"),
    [
        ((1_000_000.0, 1_200_000.0), (900_000.0, 1_100_000.0), Outcome.PASS),
        ((1_200_000.0, 1_300_000.0), (900_000.0, 1_100_000.0), Outcome.REGRESSED),
        ((500_000.0, 600_000.0), (900_000.0, 1_100_000.0), Outcome.IMPROVED),
    ],
)
def test_a_part_that_is_not_reproducible_has_a_range(
    range_now: tuple[float, float], range_before: tuple[float, float], outcome: Outcome
) -> None:
    """A range has risen or fallen if all of it has; overlapping ranges are equal."""
    now, then = (
        make_profile(
            counts={**PROFILE.counts, "allocated_bytes": {"rows.encode": 2_000_000.0}},
            dropped={"allocated_bytes": {"rows.batch": ends}},
        )
        for ends in (range_now, range_before)
    )
    assert find(now, "allocated_bytes", then).outcome is outcome


def test_what_became_unstable_and_doubled_regresses() -> None:
    """A part that was exact before is compared with the low end of its new range."""
    now = make_profile(
        counts={**PROFILE.counts, "calls": {"rows.batch": 1.0, "builtins.len": 258.0}},
        dropped={"calls": {"rows.encode": (256.0, 260.0)}},
    )
    found = find(now, "calls")
    assert found.outcome is Outcome.REGRESSED
    assert "rows.encode: 256 calls per batch instead of 128 calls" in found.reason


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
            make_profile(counts={"calls": {}}, dropped={"calls": {"rows.batch": (1.0, 2.0)}}),
            "calls",
            "it differs between two processes of the same code now",
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
    assert found.why_not == why_not
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


def test_a_long_chain_of_risen_calls_is_explained_quickly() -> None:
    """Two thousand functions in a chain are one cause."""
    names = [f"rows.f{number}" for number in range(2_000)]
    callers = dict(zip(names, ["", *names], strict=False))
    then, now = (
        with_calls({name: {caller: calls} for name, caller in callers.items()})
        for calls in (1.0, 2.0)
    )
    assert find(now, "calls", then).reason.count(";") == 1
