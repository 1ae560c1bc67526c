"""What a run counted, and the figures computed from it. Pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

from netpipe.results.measurement import Interval
from netpipe.results.statistics import median_interval, ratio_interval


@dataclass(frozen=True)
class Tally:
    """What one run counted.

    Attributes:
        wall_s: Seconds of its steady state.
        cpu_s: CPU seconds of all processes in the steady state, without those of counting tokens.
        batches: Batches in the steady state.
        tokens: Real tokens in those batches.
        slots: Token positions in those batches, padding included.
        worst_padding_fraction: The largest share of padding in any batch.
        bytes_read: Bytes that the loading processes read in the steady state.
        peak_pss_bytes: The most memory of all processes, shared memory counted once.
        peak_rss_bytes: The same, shared memory counted in each process.
        first_batch_s: Seconds from building the pipeline to its first batch, after the imports.
        counted_by: What counts as a token: see `netpipe.throughput.token_counting`.
    """

    wall_s: float
    cpu_s: float
    batches: int
    tokens: int
    slots: int
    worst_padding_fraction: float
    bytes_read: int
    peak_pss_bytes: int
    peak_rss_bytes: int
    first_batch_s: float
    counted_by: str


FIGURES: Final[Mapping[str, Callable[[Tally], float]]] = MappingProxyType(
    {
        "tokens_per_s": lambda run: run.tokens / run.wall_s,
        "tokens_per_cpu_s": lambda run: run.tokens / run.cpu_s,
        "batches_per_s": lambda run: run.batches / run.wall_s,
        "padding_fraction": lambda run: 1 - run.tokens / run.slots,
        "padding_fraction_worst_batch": lambda run: run.worst_padding_fraction,
        "bytes_read_per_token": lambda run: run.bytes_read / run.tokens,
        "peak_pss_bytes": lambda run: run.peak_pss_bytes,
        "peak_rss_bytes": lambda run: run.peak_rss_bytes,
        "first_batch_s": lambda run: run.first_batch_s,
    }
)
"""Every figure of a run, by its name."""


def over_rounds(name: str, runs: Sequence[Tally]) -> Interval:
    """Return a figure's median over the runs, at least one, with its 95% interval."""
    interval = median_interval([FIGURES[name](run) for run in runs])
    return replace(interval, low=max(0.0, interval.low))  # none of them can be less


def ratio(name: str, ours: Sequence[Tally], theirs: Sequence[Tally]) -> Interval | None:
    """Return a figure over another loader's of the same rounds; None where theirs is 0."""
    over, under = ([FIGURES[name](run) for run in runs] for runs in (ours, theirs))
    return ratio_interval(over, under) if all(under) else None
