"""The counts of a run, and the figures computed from them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Final

from netpipe.measuring.training.token_counts import BY_ELEMENTS, name_leaves
from netpipe.results.fields import (
    Amount,
    Count,
    Fraction,
    Interval,
    MayBeAbsent,
    Must,
    PositiveAmount,
    PositiveCount,
    Text,
)
from netpipe.results.statistics import median_interval, ratio_interval


def describe_arrays(batch: object) -> dict[str, str]:
    """Return the dtype and shape of a batch's arrays by name: `{"inputs": "int32[128,1024]"}`."""
    described = {}
    for name, leaf in name_leaves(batch):
        # torch's types have the same names as NumPy's.
        dtype = str(getattr(leaf, "dtype", type(leaf).__name__)).removeprefix("torch.")
        shape = ",".join(map(str, getattr(leaf, "shape", ())))
        described[name or "the batch"] = f"{dtype}[{shape}]"
    return dict(sorted(described.items()))


def size_in_bytes(batch: object) -> int:
    """Return the total size of a batch's arrays in bytes."""
    return sum(int(getattr(leaf, "nbytes", 0)) for _, leaf in name_leaves(batch))


def most_behind(arrivals_s: Sequence[float]) -> float:
    """Return the number of batches that a buffer must hold to hide pauses: 1 for an even pace.

    This is the largest number of batches by which the loader fell behind its mean pace after being
    ahead of it. With this buffer, a step that takes batches at the mean pace never waits.
    """
    pace_s = arrivals_s[-1] / len(arrivals_s)
    behind = ahead = 0.0
    for before, arrival_s in enumerate(arrivals_s):
        wanted = arrival_s / pace_s
        behind = max(behind, ahead + wanted - before)
        ahead = max(ahead, before + 1 - wanted)
    return behind


Figure = Annotated[
    Interval,
    Must(
        "Figure",
        containsMedian=True,
        additionalProperties=False,
        properties={"median": {"minimum": 0}, "low": {"minimum": 0}, "n": {"minimum": 1}},
    ),
]
"""The median of a figure over the rounds, with its interval."""


@dataclass(frozen=True)
class Tally:
    """The counts of one run in its steady state."""

    wall_s: PositiveAmount  #: Seconds of steady iteration.
    cpu_s: PositiveAmount  #: CPU seconds of all processes in this time, except for counting tokens.
    batches: PositiveCount
    examples: MayBeAbsent[PositiveCount]  #: Rows of the first array of these batches.
    tokens: PositiveCount  #: Real tokens in these batches.
    slots: PositiveCount  #: Token positions in these batches, including padding.
    worst_padding_fraction: Fraction
    bytes_read: Count
    peak_pss_bytes: PositiveCount
    peak_rss_bytes: PositiveCount
    first_batch_s: Amount
    counted_by: Text  #: The rule by which tokens are counted.
    batch_bytes: MayBeAbsent[Count]  #: Bytes of the arrays of the first batch.
    #: Most batches by which the loader fell behind its mean pace; such a buffer hides its pauses.
    behind_batches: MayBeAbsent[Amount]


FIGURES: Final[Mapping[str, Callable[[Tally], float]]] = {
    "tokens_per_s": lambda run: run.tokens / run.wall_s,
    "tokens_per_cpu_s": lambda run: run.tokens / run.cpu_s,
    "examples_per_s": lambda run: run.examples / run.wall_s,
    "examples_per_cpu_s": lambda run: run.examples / run.cpu_s,
    "batches_per_s": lambda run: run.batches / run.wall_s,
    "padding_fraction": lambda run: 1 - run.tokens / run.slots,
    "padding_fraction_worst_batch": lambda run: run.worst_padding_fraction,
    "bytes_read_per_token": lambda run: run.bytes_read / run.tokens,
    "peak_pss_bytes": lambda run: run.peak_pss_bytes,
    "peak_rss_bytes": lambda run: run.peak_rss_bytes,
    "first_batch_s": lambda run: run.first_batch_s,
}


def speed_figure(runs: Sequence[Tally]) -> str:
    """Return the name of the speed figure: tokens if batches mark padding, otherwise examples."""
    return "examples_per_s" if runs[0].counted_by == BY_ELEMENTS else "tokens_per_s"


def over_rounds(name: str, runs: Sequence[Tally]) -> Interval:
    """Return a figure's median over one or more runs, with its 95% interval."""
    interval = median_interval([FIGURES[name](run) for run in runs])
    return replace(interval, low=max(0.0, interval.low))  # no figure can be negative


def ratio(name: str, ours: Sequence[Tally], theirs: Sequence[Tally]) -> Interval | None:
    """Return the ratio of a figure to another loader's by round; None if the other's is 0."""
    over, under = ([FIGURES[name](run) for run in runs] for runs in (ours, theirs))
    return ratio_interval(over, under) if all(under) else None
