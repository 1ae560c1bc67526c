"""The rules about the elements that a shuffle mixes."""

from typing import Any

import grain
import numpy as np
import pytest

from netpipe.linting.linter import lint
from tests.linting.rules.linting import (
    NO_THREADS,
    OneToThree,
    by_intent,
    elements,
    in_workers,
    increment,
    kinds_of,
    loader,
    only,
    source,
)

BATCH = "shuffle-after-batch"
REPEAT = "shuffle-after-repeat"
SLICES = "sequential-slice-with-shuffle"
X = grain.experimental


def window(dataset: Any) -> Any:
    """A window shuffle after a dataset, whichever side of to_iter_dataset it is on."""
    by_place = isinstance(dataset, grain.MapDataset)
    kind = X.WindowShuffleMapDataset if by_place else X.WindowShuffleIterDataset
    return kind(dataset, window_size=2, seed=3)


@pytest.mark.parametrize(
    "shuffled",
    [
        source().batch(4).shuffle(seed=3),
        source().batch(4).map(increment).shuffle(seed=3),
        window(source().batch(4)),
        window(elements().batch(4)),
        in_workers(source().batch(4).shuffle(seed=3).to_iter_dataset(NO_THREADS)),
        source().batch(1, batch_fn=np.concatenate).shuffle(seed=3),
    ],
    ids=["shuffle", "map-between", "window", "window-of-stream", "in-workers", "own-function"],
)
def test_a_shuffle_after_a_batch_is_an_error(shuffled: Any) -> None:
    """Whole batches are shuffled, whatever the intent."""
    assert by_intent(shuffled, BATCH) == ("error", "error")


@pytest.mark.parametrize(
    "shuffled",
    [
        source().shuffle(seed=3).batch(4),
        source().batch(1).shuffle(seed=3),
        source().shuffle(seed=3).batch(4).shuffle(seed=3),
        X.FlatMapMapDataset(source().batch(4), OneToThree()).shuffle(seed=3),
        X.FlatMapMapDataset(source().batch(4).shuffle(seed=3), OneToThree()),
        source().batch(4).shuffle(seed=3).batch(2),
        window(loader(grain.transforms.Batch(4), workers=0, shuffle=True)._dataset),
    ],
    ids=["before", "of-one", "both", "taken-apart", "blocks", "blocks-batched", "sampler"],
)
def test_a_shuffle_of_elements_or_of_blocks_to_read_is_right(shuffled: Any) -> None:
    """Elements are shuffled before the batch, or split or batched again after the shuffle."""
    assert by_intent(shuffled, BATCH) == (None, None)


def test_a_late_shuffle_names_the_pair_and_the_call() -> None:
    """The fix is the two calls in the other order, with the user's own numbers."""
    report = lint(source().batch(4).shuffle(seed=3))
    assert kinds_of(only(BATCH, report), report) == ["Shuffle", "Batch"]
    calls = ".shuffle(seed=3).batch(batch_size=4)"
    assert only(BATCH, report).fix.endswith(f": {calls}")
    assert "before .batch(batch_size=4)" in only(BATCH, lint(window(source().batch(4)))).fix

    # Grain derives the seed of the shuffle.
    seeded = source().seed(1).batch(4).shuffle()
    assert ".shuffle().batch(batch_size=4)" in only(BATCH, lint(seeded)).fix
    blocks = source().batch(1, batch_fn=np.concatenate).shuffle(seed=3)
    assert ".batch(batch_size=1, batch_fn=...)" in only(BATCH, lint(blocks)).fix


def test_a_shuffle_after_a_repeat_is_a_warning() -> None:
    """Elements are shuffled before the repeat, so every epoch is shuffled again."""
    assert by_intent(source().repeat(3).shuffle(seed=5), REPEAT) == ("warning", "warning")
    assert by_intent(source().shuffle(seed=5).repeat(3), REPEAT) == (None, None)
    assert by_intent(source().repeat(1).shuffle(seed=5), REPEAT) == (None, None)
    report = lint(source().repeat(3).map(increment).shuffle(seed=5))
    finding = only(REPEAT, report)
    assert kinds_of(finding, report) == ["Shuffle", "Repeat"]
    assert "3 epochs" in finding.message
    assert finding.fix.endswith(".shuffle(seed=5).repeat(3)")

    finding = only(REPEAT, lint(source().repeat().shuffle(seed=5)))
    assert "endless epochs" in finding.message
    assert finding.fix.endswith(".shuffle(seed=5).repeat()")


def test_a_repeat_of_one_branch_is_its_weight() -> None:
    """A window mixes only the ends of two epochs."""
    weighted = grain.MapDataset.concatenate([source().repeat(3), source()]).shuffle(seed=5)
    assert by_intent(weighted, REPEAT) == (None, None)
    assert by_intent(window(source().repeat(3)), REPEAT) == (None, None)


def test_sequential_slices_of_a_shuffle() -> None:
    """An error for reproducible, and a warning for throughput."""
    batches = source().shuffle(seed=5).batch(4).to_iter_dataset(NO_THREADS)
    assert by_intent(in_workers(batches, sequential_slice=True), SLICES) == ("warning", "error")
    assert by_intent(in_workers(batches), SLICES) == (None, None)
    assert by_intent(in_workers(elements(), sequential_slice=True), SLICES) == (None, None)
    assert by_intent(in_workers(batches, 1, sequential_slice=True), SLICES) == (None, None)
    report = lint(in_workers(batches, sequential_slice=True))
    assert kinds_of(only(SLICES, report), report) == ["ProcessPrefetch", "Shuffle"]
