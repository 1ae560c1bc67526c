"""How well a version shuffles its elements, and whether another version shuffles worse. Pure.

The distribution of every figure in a uniform shuffle is known, so that at most about one in 1,000
uniform shuffles is called worse than another.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from netpipe.errors import MisuseError

MIN_ELEMENTS: Final = 100
FALSE_ALARM_RATE: Final = 0.001
_MIN_RISE: Final = 0.02
_REPEATS: Final = "repeats"

Integers = NDArray[np.integer[Any]]


@dataclass(frozen=True)
class Figure:
    """A figure of an order, and the probability that a uniform shuffle has it or a higher one."""

    value: float
    p_value: float


@dataclass(frozen=True)
class Shuffling:
    """Figures of an order: about 0 in a uniform shuffle, 1 at worst.

    Attributes:
        elements: Elements of the shorter epoch; there are no figures below `MIN_ELEMENTS`.
        figures: By name; of two epochs, the figure with the lower p-value.
            source_order: Rank correlation with the order of the source: 1 minus the mean squared
                displacement as a fraction of its mean in uniform shuffles.
            source_part: Kolmogorov-Smirnov distance between the positions and the whole source;
                near 1 if the first batches of an epoch are from one shard.
            neighbours: Rank correlation between the positions of successive elements.
            source_neighbours: Rank correlation between the times at which neighbours in the source
                are delivered; near 1 also if several readers take turns.
            repeats: Fraction of elements that the epoch has delivered before.
            epochs: Dependence of an element's batch in the second epoch on that in the first.
    """

    elements: int
    figures: Mapping[str, Figure]


@dataclass(frozen=True)
class ShuffleComparison:
    """Whether a version shuffles worse, the names of the figures that are worse, and the reason."""

    outcome: Literal["NO_WORSE", "WORSE", "NOT_COMPARED"]
    worse: tuple[str, ...]
    reason: str


def describe_shuffle(batches: Sequence[Sequence[Integers]], elements: int) -> Shuffling:
    """Return the figures of an order, with the p-values of scipy's tests.

    The correlation of successive elements is the serial correlation of Wald and Wolfowitz (Ann.
    Math. Stat. 14, 1943, p. 378). The test of `source_part` supposes independent elements; those
    drawn without replacement vary less.

    Args:
        batches: The batches of one or two epochs, or the first batches of each: int (batch,), the
            position of each element, which is its index among all elements in the order without a
            shuffle. Elements without batches count as batches of 8.
        elements: Number of elements of the source.

    Raises:
        MisuseError: A position is not in the source; numpy would count a negative one from the end.
    """
    from scipy.stats import kstest, spearmanr

    for batch in (batch for epoch in batches for batch in epoch if len(batch)):
        if batch.min() < 0 or batch.max() >= elements:
            raise MisuseError(
                f"positions in a source of {elements} elements must be from 0 to "
                f"{elements - 1}; found {batch.min()} to {batch.max()}"
            )
    epochs = [np.concatenate([*epoch, np.zeros(0, int)]) for epoch in batches]
    shortest = min(map(len, epochs), default=0)
    if shortest < MIN_ELEMENTS:
        return Shuffling(shortest, {})
    found = defaultdict[str, list[Figure]](list)
    for positions in epochs:
        once = positions[np.sort(np.unique(positions, return_index=True)[1])]
        times = np.argsort(once)
        pairs = {
            "source_order": (once, np.arange(len(once))),
            "neighbours": (once[:-1], once[1:]),
            "source_neighbours": (times[:-1], times[1:]),
        }
        tests = {name: spearmanr(*pair, alternative="greater") for name, pair in pairs.items()}
        tests["source_part"] = kstest((once + 0.5) / elements, "uniform")
        for name, test in tests.items():
            found[name].append(Figure(float(test.statistic), float(test.pvalue)))
        repeats = 1 - len(once) / len(positions)
        found["repeats"].append(Figure(repeats, float(repeats == 0)))
    if len(epochs) > 1:
        first, second = map(_number_batches, batches[:2])
        before = np.full(elements, -1)
        before[epochs[0]] = first
        again = before[epochs[1]]
        found["epochs"].append(_measure_dependence(second[again >= 0], again[again >= 0]))
    figures = {}
    for name, each in found.items():
        worst = min(each, key=lambda figure: (figure.p_value, -figure.value))
        figures[name] = Figure(worst.value, min(1.0, worst.p_value * len(each)))
    return Shuffling(shortest, figures)


def compare_shuffles(before: Shuffling, after: Shuffling) -> ShuffleComparison:
    """Say whether a version shuffles worse than the version before it.

    A figure is worse if it has risen by 0.02, or repeats from 0, and a uniform shuffle does not
    explain it: p < 0.001, divided by the number of figures (Bonferroni). If the order was not
    uniform before, another seed may move its figures by any amount: they must come four times as
    near to 1.
    """
    if (elements := min(before.elements, after.elements)) < MIN_ELEMENTS:
        reason = f"an epoch must have at least {MIN_ELEMENTS} elements; found {elements}"
        return ShuffleComparison("NOT_COMPARED", (), reason)
    both = [name for name in after.figures if name in before.figures]
    limit = FALSE_ALARM_RATE / len(both)
    ordered = [name for name in both if name != _REPEATS]
    was_uniform = all(before.figures[name].p_value >= limit for name in ordered)
    worse = {}
    for name in both:
        then, now = before.figures[name], after.figures[name]
        has_begun = name == _REPEATS and then.value == 0
        has_risen = has_begun or now.value - then.value >= _MIN_RISE
        if name in ordered and not was_uniform:
            has_risen = round((1 - then.value) / 4 - (1 - now.value), 9) > 0
        if has_risen and now.p_value < limit:
            worse[name] = f"{name} is {now.value:.3f}, was {then.value:.3f}"
    if worse:
        return ShuffleComparison("WORSE", tuple(worse), "; ".join(worse.values()))
    if missing := before.figures.keys() ^ after.figures.keys():
        reason = f"only one version has {', '.join(sorted(missing))}"
        return ShuffleComparison("NOT_COMPARED", (), reason)
    return ShuffleComparison("NO_WORSE", (), f"compared: {', '.join(both)}")


def compare_with_uniform(found: Shuffling) -> ShuffleComparison:
    """Say whether an order is worse than a uniform shuffle; at most 1 in 1,000 of those is."""
    uniform = dict.fromkeys(found.figures, Figure(0.0, 1.0))
    return compare_shuffles(Shuffling(found.elements, uniform), found)


def _number_batches(batches: Sequence[Integers]) -> Integers:
    """Return the number of each element's batch."""
    lengths = list(map(len, batches))
    numbers = np.repeat(np.arange(len(lengths)), lengths)
    return numbers if max(lengths) > 1 else numbers // 8


def _measure_dependence(rows: Integers, columns: Integers) -> Figure:
    """Test whether two groupings are independent, by Pearson's chi-square.

    The figure is the chi-square minus its mean, as a fraction of its maximum minus its mean.
    """
    from scipy.stats import chi2
    from scipy.stats.contingency import crosstab

    least = min(len(np.unique(rows)), len(np.unique(columns))) - 1
    if least < 1:
        return Figure(0.0, 1.0)
    table = crosstab(rows, columns, sparse=True).count
    lengths, sizes = np.bincount(table.row, table.data), np.bincount(table.col, table.data)
    found = len(rows) * (np.sum(table.data**2 / lengths[table.row] / sizes[table.col]) - 1)
    mean = (len(lengths) - 1) * (len(sizes) - 1)
    value = (found - mean) / (len(rows) * least - mean)
    return Figure(float(value), float(chi2.sf(found, mean)))
