"""Changes of the data that a loader yields, which no count of work shows."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import grain
import numpy as np
import pytest

from netpipe.gate.outcomes import Comparison, Outcome
from netpipe.gate.work_comparison import compare_work
from netpipe.jobs.heartbeat import UNWATCHED
from netpipe.results.work_profile import DATA_KINDS, WorkProfile, keep_reproducible
from netpipe.work_counts.loader_work import count_loader_work


def batches(elements: int = 100, *, seed: int | None = 1, reverse: bool = False) -> Any:
    """Return a pipeline of batches of 4 elements."""
    dataset = grain.MapDataset.range(elements)
    dataset = dataset if seed is None else dataset.shuffle(seed=seed)
    return (dataset[::-1] if reverse else dataset).batch(4)


def profile_of(loader: Callable[[], Any]) -> WorkProfile:
    """Return the contents and the epoch of a loader, counted in this process."""
    work = count_loader_work(loader, 16, UNWATCHED)
    return WorkProfile(
        versions={},
        batches=work.batches,
        contents=tuple(work.contents),
        epoch_batches=work.epoch_batches,
        not_counted=work.not_counted,
    )


def compare(loader: Callable[[], Any]) -> dict[str, Comparison]:
    """Compare a loader with the unchanged pipeline."""
    found = compare_work(profile_of(loader), profile_of(batches))
    return {each.metric: each for each in found}


def test_equal_data_pass() -> None:
    """Both kinds are compared."""
    assert {name: found.outcome for name, found in compare(batches).items()} == {
        "contents": Outcome.PASS,
        "epoch_batches": Outcome.PASS,
    }


@pytest.mark.parametrize(
    ("changed", "kind"),
    [
        (lambda: batches(96), "epoch_batches"),
        (lambda: batches().to_iter_dataset().filter(lambda each: each[0] % 10), "contents"),
        (lambda: batches()[:24], "epoch_batches"),
        (lambda: batches(104), "epoch_batches"),
        (lambda: batches(seed=None), "contents"),
        (lambda: batches(seed=2), "contents"),
        (lambda: batches(reverse=True), "contents"),
        (lambda: batches().map(lambda each: each.astype(np.float32)), "contents"),
    ],
    ids=[
        "records-dropped", "batches-filtered", "last-batch-dropped", "records-added",
        "shuffle-removed", "other-seed", "order-reversed", "other-dtype",
    ],
)  # fmt: skip
def test_changed_data_fail(changed: Callable[[], Any], kind: str) -> None:
    """Neither a faster nor a longer epoch makes up for a change of the data."""
    assert compare(changed)[kind].outcome is Outcome.REGRESSED


def test_the_first_batch_that_differs_is_named() -> None:
    """The batches are numbered from 0, as in the scope: two are not counted."""

    def changed() -> Any:
        return batches().map_with_index(lambda n, each: each + (n >= 9))

    found = compare(changed)["contents"]
    text = "contents: 9 of 16 batches differ from those before, batch 9 first"
    assert (found.reason, found.shown_change) == (text, "9 of 16 batches")
    assert found.worse_ratio == 1 + 9 / 16


def test_a_loader_that_is_not_reproducible_has_no_contents() -> None:
    """Two processes of the same code give other batches, so nothing can be compared."""
    both = keep_reproducible([profile_of(batches), profile_of(lambda: batches(seed=2))])
    assert both.contents == ()
    assert both.epoch_batches == 25
    found = {each.metric: each for each in compare_work(both, profile_of(batches))}
    assert found["contents"].outcome is Outcome.NOT_COMPARED
    assert "processes of the same code differ" in found["contents"].reason


def test_contents_that_neither_version_can_compare_do_not_pass() -> None:
    """An unseeded shuffle may hide any change of the data."""
    unseeded = keep_reproducible([profile_of(batches), profile_of(lambda: batches(seed=2))])
    found = {each.metric: each.outcome for each in compare_work(unseeded, unseeded)}
    assert found == {"contents": Outcome.NOT_COMPARED, "epoch_batches": Outcome.PASS}


def test_an_earlier_profile_without_data_is_not_compared() -> None:
    """A baseline may be older than the digests."""
    earlier = WorkProfile(versions={}, batches=16)
    found = compare_work(profile_of(batches), earlier)
    assert {each.metric for each in found} == {*DATA_KINDS}
    assert {each.outcome for each in found} == {Outcome.NOT_COMPARED}


@pytest.mark.parametrize("make", [lambda length: [0] * length, lambda length: batches(4 * length)])
def test_a_long_epoch_has_the_length_that_its_loader_states(make: Callable[[int], Any]) -> None:
    """A dropped batch is seen although the epoch is too long to be counted."""
    found = compare_work(profile_of(partial(make, 199)), profile_of(partial(make, 200)))
    (length,) = (each for each in found if each.metric == "epoch_batches")
    assert length.outcome is Outcome.REGRESSED
    assert length.reason == "epoch_batches: an epoch has 199 batches, before 200 batches"


@pytest.mark.parametrize("drops", [False, True])
def test_endless_data_have_no_epoch(*, drops: bool) -> None:
    """The length of an endless Grain dataset depends on the size of its batches."""
    endless = grain.MapDataset.range(100).repeat()
    assert profile_of(lambda: endless.batch(4, drop_remainder=drops)).epoch_batches is None
    assert profile_of(lambda: endless[1::8].batch(4)).epoch_batches is None


def test_a_length_that_cannot_be_known_keeps_nothing_from_being_counted() -> None:
    """A stream may raise NotImplementedError."""

    class Stream:
        def __len__(self) -> int:
            raise NotImplementedError

        def __iter__(self) -> Iterator[int]:
            return iter(range(200))

    profile = profile_of(Stream)
    assert profile.epoch_batches is None
    assert len(profile.contents) == 16


def test_a_long_epoch_and_batches_without_a_pickle_are_not_counted() -> None:
    """Neither keeps the work from being counted."""

    def endless() -> Any:
        return iter(lambda: lambda: 0, None)

    profile = profile_of(endless)
    assert profile.kinds == set()
    assert "cannot be compared" in profile.not_counted["contents"]
