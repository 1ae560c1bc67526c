"""What each intervention says."""

from dataclasses import replace

import pytest

from netpipe.diagnosis.diagnosis import Intervention
from netpipe.diagnosis.interventions import of_lanes, of_the_disk, of_the_whole
from netpipe.diagnosis.thread_scaling import without_dear_copies
from netpipe.diagnosis.turns import SideBlocks
from tests.diagnosis.examples import block, turns

LANES = turns(lane=0.040, two_threads=0.040, two_processes=0.020, without_stage=0.010)


def named(name: str, *interventions: Intervention) -> Intervention:
    """Return the one of a name."""
    (found,) = (one for one in interventions if one.name == name)
    return found


def test_lanes_tell_what_another_one_gave() -> None:
    """Before is one lane, after are two, and the speedup is of the batches a second."""
    found = named("two-processes", *of_lanes(LANES, "Map of f"))
    assert found.before_s_per_batch is not None
    assert found.after_s_per_batch is not None
    assert found.speedup is not None
    assert found.before_s_per_batch.median == pytest.approx(0.040)
    assert found.after_s_per_batch.median == pytest.approx(0.020)
    assert found.speedup.median == pytest.approx(2.0)
    assert found.says == "2.00 times as fast"


def test_what_changes_nothing_says_so() -> None:
    """A second thread under one lock is no difference."""
    assert named("two-threads", *of_lanes(LANES, "")).says == "no clear difference"


def test_what_is_in_doubt_is_no_difference() -> None:
    """Twice as fast once and half as fast once is nothing to tell of."""
    rounds = (
        turns(1, lane=0.040, two_threads=0.020).rounds
        + turns(1, lane=0.040, two_threads=0.080).rounds
    )
    assert named("two-threads", *of_lanes(SideBlocks(rounds), "")).says.startswith("no clear")


def test_what_harms_is_slower() -> None:
    """Half of the cores may take twice the time."""
    found = named("half-the-cores", *of_the_whole(turns(as_it_is=0.010, half_the_cores=0.020), 4))
    assert found.says == "2.00 times slower"
    assert found.what == "the loader on 2 of 4 cores"


def test_the_stage_that_was_left_out_is_named() -> None:
    """Markup in its name is text."""
    found = named("without-stage", *of_lanes(LANES, "Map of f[/x]"))
    assert "Map of f[/x]" in found.what


def test_copies_that_cost_more_than_the_stage_are_no_effect() -> None:
    """A stage at no cost cannot make a lane slower: only copies of its results can."""
    slower = without_dear_copies(turns(lane=0.001, two_threads=0.001, without_stage=0.025))
    assert not slower.has("without-stage")
    says = named("without-stage", *of_lanes(slower, "Batch")).says
    assert says == "not made: copying what the stage returns takes longer than the stage"
    for seconds in (0.0005, 0.00101):
        kept = turns(lane=0.001, two_threads=0.001, without_stage=seconds)
        assert without_dear_copies(kept) is kept


def test_a_stage_that_cannot_be_left_out_is_no_intervention() -> None:
    """Neither is a payload that nobody sends."""
    lanes = turns(lane=0.040, two_threads=0.040, two_processes=0.020)
    assert [one.name for one in of_lanes(lanes, "")] == ["two-threads", "two-processes"]
    assert list(of_the_whole(turns(as_it_is=0.010), 1)) == []


def test_a_failure_is_told() -> None:
    """What could not be made has no figures, and says why."""
    whole = replace(turns(as_it_is=0.010), failures={"tiny-payload": "no shared memory"})
    found = named("tiny-payload", *of_the_whole(whole, 2))
    assert (found.before_s_per_batch, found.after_s_per_batch, found.speedup) == (None, None, None)
    assert found.says == "not made: no shared memory"


def test_what_all_is_held_against_may_have_failed() -> None:
    """Then that is why."""
    lanes = replace(turns(two_threads=0.040), failures={"lane": "it broke"})
    assert named("two-threads", *of_lanes(lanes, "")).says == "not made: it broke"


def test_without_files_nothing_is_cached() -> None:
    """A loader that has no file of data open reads nothing that could be cached."""
    assert of_the_disk(None).says == "not made: no file of data is open"


def test_a_cache_that_cannot_be_given_up_tells_nothing() -> None:
    """Where no byte came from a disk, both sides are the same."""
    found = of_the_disk(turns(from_disk=0.010, cached_bytes=0.005))
    assert found.speedup is None
    assert "nothing comes from a disk" in found.says


def test_a_disk_is_held_against_the_cache() -> None:
    """Bytes came from a disk, and without it the batches come faster."""
    disk = turns(from_disk=block(0.010, read_bytes_per_batch=1e6), cached_bytes=0.005)
    assert of_the_disk(disk).says == "2.00 times as fast"
    failed = replace(turns(from_disk=0.01), failures={"cached-bytes": "gone"})
    assert of_the_disk(failed).says == "not made: gone"
