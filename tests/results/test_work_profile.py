"""Work profiles: the counts that two processes agree on, and their text."""

from dataclasses import replace

import pytest

from netpipe.results.fields import parse
from netpipe.results.work_profile import DATA_KINDS, KINDS, WorkProfile, keep_reproducible
from tests.work_profiles import PROFILE, make_profile, with_count


def test_a_count_that_differs_between_processes_is_dropped() -> None:
    """Parts that differ by more than 0.1% are dropped and named; the others stay."""
    first = with_count("allocated_bytes", steady=1_000_000.0, jitter=3_000.0, random=5_000.0)
    second = with_count("allocated_bytes", steady=1_000_000.0, jitter=3_002.0, random=5_100.0)
    kept = keep_reproducible([first, second])
    assert kept.counts["allocated_bytes"] == {"steady": 1_000_000.0, "jitter": 3_000.0}
    assert kept.dropped == {"allocated_bytes": {"random": (5_000.0, 5_100.0)}}
    assert kept.counts["calls"] == first.counts["calls"]
    # Reading the kernel's counter reads a few bytes itself.
    a_few = [with_count("read_bytes", total=amount) for amount in (7.0, 60.0)]
    assert keep_reproducible(a_few).counts["read_bytes"] == {"": 7.0}


def test_a_part_that_only_one_process_has_is_dropped() -> None:
    """A function that only one of two processes called is not reproducible."""
    kept = keep_reproducible([with_count("calls", a=1.0), with_count("calls", a=1.0, b=2.0)])
    assert kept.counts["calls"] == {"a": 1.0}
    assert kept.dropped == {"calls": {"b": (0.0, 2.0)}}


def test_profiles_of_several_processes_are_merged() -> None:
    """Ranges become wider, processes add up, and the least CPU time is kept."""
    alike, apart = (
        keep_reproducible(
            [
                replace(with_count("calls", a=amount, b=5.0), cpu_s_per_batch=amount)
                for amount in amounts
            ]
        )
        for amounts in ((2.0, 2.0), (3.0, 2.0))
    )
    for merged in (keep_reproducible([alike, apart]), keep_reproducible([apart, alike])):
        assert merged.dropped == {"calls": {"a": (2.0, 3.0)}}
        assert merged.counts["calls"] == {"b": 5.0}
        assert (merged.processes, merged.cpu_s_per_batch) == (4, 2.0)
    beside = [replace(alike, tasks_beside=tasks) for tasks in (1, 3, 2)]
    assert keep_reproducible(beside).tasks_beside == 3


def test_what_one_process_could_not_count_is_not_counted() -> None:
    """The reason is kept, and the kind's counts are dropped."""
    other = make_profile(
        counts={kind: parts for kind, parts in PROFILE.counts.items() if kind != "sent_bytes"},
        not_counted={"sent_bytes": "no reason"},
    )
    kept = keep_reproducible([PROFILE, other])
    assert "sent_bytes" not in kept.counts
    assert kept.not_counted == {"sent_bytes": "no reason"}


def test_the_document_is_read_back() -> None:
    """A profile survives its document."""
    profile = make_profile(dropped={"calls": {"a": (1.0, 2.0)}}, not_counted={"padding": "why"})
    assert parse(profile.to_document(), WorkProfile, "work") == profile


def test_an_older_document_is_read() -> None:
    """Fields that older versions do not write have their defaults, and later fields are ignored."""
    document = PROFILE.to_document()
    for field in ("processes", "tasks_beside", "cpu_s_per_batch"):
        del document[field]
    assert parse({**document, "later": 1}, WorkProfile, "work") == PROFILE


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        ("calls", 1.0, "1 call"),
        ("calls", 128.0, "128 calls"),
        ("calls", 1386.6875, "1387 calls"),
        ("batch_bytes", 0.0, "0 B"),
        ("batch_bytes", 999.0, "999 B"),
        ("batch_bytes", 999.9, "1 kB"),
        ("batch_bytes", 3_145_728.0, "3.15 MB"),
    ],
)
def test_counts_are_written_with_their_unit(kind: str, value: float, text: str) -> None:
    """Bytes get a prefix, everything else is counted."""
    assert KINDS[kind].format(value) == text


def test_every_sentence_can_be_written() -> None:
    """Each kind has a sentence with both values."""
    for kind in (kind for name, kind in KINDS.items() if name not in DATA_KINDS):
        sentence = kind.sentence.format(part="x", now="2 calls", then="1 call")
        assert sentence.index("2 calls") < sentence.index("1 call", sentence.index("2 calls") + 7)


def test_a_kind_that_only_one_process_counted_is_not_reproducible() -> None:
    """The kind is kept as a range from 0, whichever process comes first."""
    profiles = [with_count("padding", tokens=5.0), PROFILE]
    for order in (profiles, profiles[::-1]):
        assert keep_reproducible(order).dropped == {"padding": {"tokens": (0.0, 5.0)}}
