"""Uniform shuffles are not called worse than each other, and planted shuffles are."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from netpipe.errors import MisuseError
from netpipe.judge.shuffling import (
    FALSE_ALARM_RATE,
    MIN_ELEMENTS,
    Figure,
    Shuffling,
    compare_shuffles,
    describe_shuffle,
)
from perf_tests.studies.shuffles import (
    PARTLY,
    PLANTED,
    SEEN_EARLY,
    SIZES,
    compare,
    make_uniform,
    shorten,
)

FIGURES = {
    "shuffle removed": {"source_order", "neighbours", "source_neighbours", "epochs"},
    "buffer of a hundredth": {"source_order", "neighbours", "source_neighbours", "epochs"},
    "buffer of one shard": {"source_order", "neighbours", "source_neighbours"},
    "shuffle within a shard": {"source_order", "neighbours", "source_neighbours"},
    "shards shuffled, and within": {"neighbours", "source_neighbours"},
    "shuffle after the batch": {"neighbours", "source_neighbours", "epochs"},
    "five readers without a shuffle": {"source_neighbours", "epochs"},
    "with replacement": {"repeats"},
    "a repeated batch": {"repeats"},
    "same seed in both epochs": {"epochs"},
    "first epoch's batches again, in another order": {"epochs"},
    "second epoch without a shuffle": {"source_order", "neighbours", "source_neighbours"},
}


def describe(epochs: Sequence[Any], elements: int = 1000) -> Shuffling:
    """Describe the orders of epochs in batches of 10."""
    batches = [np.split(np.asarray(epoch), range(10, len(epoch), 10)) for epoch in epochs]
    return describe_shuffle(batches, elements)


def draw(seed: int, count: int = 1000, elements: int = 1000) -> Any:
    """Return the first elements of a uniform shuffle."""
    return np.random.default_rng(seed).permutation(elements)[:count]


@pytest.mark.parametrize("shuffle", [make_uniform, shorten(make_uniform)], ids=["whole", "first"])
@pytest.mark.parametrize(("size", "batch"), SIZES[:2])
def test_a_uniform_shuffle_is_not_worse(shuffle: Any, size: int, batch: int) -> None:
    """None of 60 uniform shuffles is called worse than the one before it."""
    rng = np.random.default_rng(0)
    found = [describe_shuffle(shuffle(rng, size, batch), size) for _ in range(61)]
    assert {compare_shuffles(*pair).outcome for pair in pairwise(found)} == {"NO_WORSE"}


@pytest.mark.parametrize("name", PLANTED)
@pytest.mark.parametrize(("size", "batch"), SIZES[:3])
def test_a_planted_shuffle_is_worse(name: str, size: int, batch: int) -> None:
    """It is worse than a uniform shuffle in all figures that show it."""
    for seed in range(3):
        found = compare(make_uniform, PLANTED[name], seed, size, batch)
        assert found.outcome == "WORSE"
        assert set(found.worse) >= FIGURES[name]
        assert all(f"{figure} is " in found.reason for figure in found.worse)


@pytest.mark.parametrize("name", SEEN_EARLY)
@pytest.mark.parametrize(("size", "batch"), SIZES)
def test_the_first_batches_show_a_planted_shuffle(name: str, size: int, batch: int) -> None:
    """Half of a shard shows that it comes from one part of the source."""
    found = compare(shorten(make_uniform), shorten(PLANTED[name]), 0, size, batch)
    assert "source_part" in found.worse


@pytest.mark.parametrize("name", PARTLY)
def test_another_seed_of_a_partial_shuffle_is_not_worse(name: str) -> None:
    """The figures of a shuffle that is not uniform move more with its seed."""
    for seed in range(4):
        assert compare(PARTLY[name], PARTLY[name], seed, 200, 8).outcome == "NO_WORSE"


@pytest.mark.parametrize("name", PARTLY)
def test_a_partial_shuffle_can_be_removed(name: str) -> None:
    """Removing a shuffle is worse than any shuffle."""
    found = compare(PARTLY[name], PLANTED["shuffle removed"], 0, 1000, 16)
    assert "neighbours" in found.worse


@pytest.mark.parametrize("name", PLANTED)
def test_an_unchanged_order_is_not_worse(name: str) -> None:
    """However bad the order is, it is not worse than itself."""
    for size, batch in SIZES[:2]:
        found = describe_shuffle(PLANTED[name](np.random.default_rng(0), size, batch), size)
        assert compare_shuffles(found, found).outcome == "NO_WORSE"


@pytest.mark.parametrize("name", PLANTED)
def test_a_better_shuffle_is_not_worse(name: str) -> None:
    """A uniform shuffle is at least as good as any other."""
    assert compare(PLANTED[name], make_uniform, 1, 1000, 16).outcome == "NO_WORSE"


def test_p_values_are_probabilities() -> None:
    """In uniform shuffles, a tenth of the p-values is below 0.1, or fewer; figures are near 0."""
    found = [describe([draw(seed, 300), draw(seed + 150, 300)]) for seed in range(150)]
    assert set(found[0].figures) == {
        "source_order", "source_part", "neighbours", "source_neighbours", "repeats", "epochs",
    }  # fmt: skip
    for name in found[0].figures:
        low = np.mean([one.figures[name].p_value < 0.1 for one in found])
        assert low < 0.18, name
    assert abs(np.mean([one.figures["epochs"].value for one in found])) < 0.01


def test_figures_are_normalised() -> None:
    """The order of the source has 1, a reversed order is not similar to it."""
    ordered = describe([range(1000)] * 2).figures
    for name in ("source_order", "neighbours", "source_neighbours", "epochs"):
        assert ordered[name].value == pytest.approx(1)
    assert describe([range(1000)[::-1]]).figures["source_order"].value == pytest.approx(-1)
    assert describe([range(10)] * 100).elements == 10
    assert describe([[*range(500)] * 2]).figures["repeats"] == Figure(0.5, 0.0)


def test_one_repeated_element_is_worse() -> None:
    """A uniform shuffle never repeats an element."""
    order = draw(1)
    repeated = np.array([*order[:-1], order[0]])
    found = compare_shuffles(describe([draw(2)]), describe([repeated]))
    assert (found.outcome, found.worse) == ("WORSE", ("repeats",))
    assert found.reason == "repeats is 0.001, was 0.000"


def test_a_slight_deviation_is_not_worse() -> None:
    """Below 0.02, a figure that a uniform shuffle cannot explain has not become worse."""
    fine, slight, worse = (
        Shuffling(10**6, {"neighbours": Figure(value, p)})
        for value, p in ((0.001, 0.3), (0.0205, 1e-9), (0.0215, 1e-9))
    )
    assert compare_shuffles(fine, slight).outcome == "NO_WORSE"
    assert compare_shuffles(fine, worse).outcome == "WORSE"
    unexplained = Shuffling(10**6, {"neighbours": Figure(0.3, 1.01 * FALSE_ALARM_RATE)})
    assert compare_shuffles(fine, unexplained).outcome == "NO_WORSE"


def test_several_figures_share_the_rate_of_false_alarms() -> None:
    """With two figures, half as small a p-value is needed."""
    fine, found = Figure(0.0, 0.5), Figure(0.3, 0.6 * FALSE_ALARM_RATE)
    one, two = ({"neighbours": found}, {"neighbours": found, "epochs": fine})
    for figures, outcome in ((one, "WORSE"), (two, "NO_WORSE")):
        before = Shuffling(1000, dict.fromkeys(figures, fine))
        assert compare_shuffles(before, Shuffling(1000, figures)).outcome == outcome


def test_a_single_batch_shows_no_dependence() -> None:
    """The elements of both epochs are all in it."""
    batches = [[draw(1)], [draw(2)]]
    assert describe_shuffle(batches, 1000).figures["epochs"] == Figure(0.0, 1.0)


def test_a_loader_without_batches_can_repeat_its_order() -> None:
    """Elements one by one are compared in runs."""
    then, now = (
        describe_shuffle([[*order[:, None]] for order in orders], 1000)
        for orders in ((draw(1), draw(2)), (draw(3), draw(3)))
    )
    assert compare_shuffles(then, now).worse == ("epochs",)


def test_epochs_without_common_elements_are_compared() -> None:
    """The first batches of two epochs of a large source may share no element."""
    then = describe([draw(5, 200, 10**6), draw(6, 200, 10**6)], 10**6)
    assert compare_shuffles(then, then).outcome == "NO_WORSE"
    again = describe([draw(5, 200, 10**6)] * 2, 10**6)
    assert compare_shuffles(then, again).worse == ("epochs",)


def test_too_few_elements_are_not_compared() -> None:
    """A short epoch, or none, has no outcome, whichever version has it."""
    enough, few = describe([draw(1)]), describe([draw(1), draw(2, MIN_ELEMENTS - 1)])
    for pair in ((enough, few), (few, enough), (enough, describe([])), (describe([[]]), enough)):
        found = compare_shuffles(*pair)
        assert found.outcome == "NOT_COMPARED"
        assert "an epoch must have at least 100 elements; found " in found.reason
    least = describe([draw(2, MIN_ELEMENTS)])
    assert compare_shuffles(enough, least).outcome == "NO_WORSE"


def test_a_figure_of_one_version_only_is_not_compared() -> None:
    """A second epoch that only one version has is not judged, but a worse figure is."""
    one, both = describe([draw(1)]), describe([draw(1), draw(2)])
    for pair in ((one, both), (both, one)):
        found = compare_shuffles(*pair)
        assert (found.outcome, found.worse) == ("NOT_COMPARED", ())
        assert found.reason == "only one version has epochs"
    assert compare_shuffles(both, describe([range(1000)])).outcome == "WORSE"


@pytest.mark.parametrize("wrong", [-1, 1000])
def test_a_position_outside_the_source_is_an_error(wrong: int) -> None:
    """The message has the limits and the positions of the batch."""
    with pytest.raises(MisuseError, match=r"from 0 to 999; found (-1 to 990|0 to 1000)$"):
        describe([[990, 0, wrong]])
