"""Judge two versions that were timed side by side, in duets. Pure.

A duet is one process of each version. Their blocks are timed together or one right after the other;
a pair of blocks is a slice. Both versions share the machine and its load, which cancel in a slice's
ratio (Bulej et al., Duet Benchmarking, ICPE 2020). A load that comes and goes may hit one of them
harder, so if enough slices were quiet, only these count. The change of a duet is the trimmed mean
of its slices' changes. Its variance comes from a moving block bootstrap (Kuensch, Ann. Stat. 17,
1989, p. 1217), because a load that does not cancel may last for several slices. Processes of the
same code also differ for their whole life, for example in their memory layout, so several duets are
needed. The spread of a few duets is a poor estimate. It is therefore moderated with the expected
spread (Smyth, Stat. Appl. Genet. Mol. Biol. 3, 2004, no. 3, section 3), unless the duets contradict
that.

The rule is sequential: `MIN_DUETS` first, then one more at a time up to `MAX_DUETS`, until a change
beyond the bound is proven or the interval lies below the bound. Every look before the last needs a
higher confidence, because repeated looks raise more false alarms. `tests/gate/test_duets.py`
simulates duets and checks how often the rule is wrong.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import ceil, log, sqrt
from statistics import fmean, median
from typing import Final

import numpy as np

from netpipe.gate.comparison import compare_until_decided, mark_if_not_comparable, student_quantile
from netpipe.gate.metrics import GATED, MAX_BUSY_FRACTION, ONCE, Metric
from netpipe.gate.outcomes import NO_WORSE, Comparison, Outcome
from netpipe.results.fields import Fraction, MayBeAbsent
from netpipe.results.measurement import Interval
from netpipe.results.units import format_count

MIN_DUETS: Final = 2
MAX_DUETS: Final = 5
# A duet with fewer slices does not count.
MIN_SLICES: Final = 5
# Two duets may agree on a change by chance, such as beside a changing load.
_MIN_DUETS_FOR_CHANGE: Final = 3

# One-sided confidence levels: for the last look, and for every earlier one.
_LAST_LEVEL: Final = 0.995
_EARLY_LEVEL: Final = 0.998
# While an interval at this level includes the bound, another duet is measured.
_OPEN_LEVEL: Final = 0.975
# At the last look, PASS requires the interval to lie below this change.
_HIDDEN_CHANGE: Final = log(1.10)

# In 93 duets, the process spread of steps on shared cores was 3.5%. If it were set to 2%, one in 60
# comparisons of unchanged training, drawn from recorded duets, would be REGRESSED.
_STEP_SPREAD_ON_SHARED_CORES: Final = 0.035

# Weight of the expected spread in degrees of freedom, and the confidence level for rejecting it.
_EXPECTED_FREEDOM: Final = 6
_CONTRADICTION_LEVEL: Final = 0.95
_TRIMMED_FRACTION: Final = 0.2
_RESAMPLES: Final = 400


@dataclass(frozen=True)
class Duet:
    """The figures of one process per version, measured side by side; `now` is judged.

    Attributes:
        base: One value per slice for each metric, by the metric's name and in its unit;
            load_cpu_ratio is relative to the base version. A metric of `ONCE` has one value, or
            none if there were too few readings.
        difference: Why the two versions cannot be compared; "" if they can.
        shares_cores: Whether the step runs on the cores that the loader needs.
        epoch_batches: Batches in the shorter of both loaders' epochs; null while none has ended.
        busy_elsewhere_fraction: For each slice with its untimed batches, the share of the host's
            CPU time that other programs took; empty in older documents.
    """

    base: Mapping[str, Sequence[float]]
    now: Mapping[str, Sequence[float]]
    difference: str = ""
    shares_cores: bool = False
    epoch_batches: MayBeAbsent[int | None] = None
    busy_elsewhere_fraction: MayBeAbsent[tuple[Fraction, ...]] = ()


def quiet_slices(fractions: Sequence[float]) -> list[int]:
    """Return the indices of the slices in which other programs took little CPU time."""
    return [n for n, taken in enumerate(fractions) if taken <= MAX_BUSY_FRACTION]


def decide(quantity: str, duets: Sequence[Duet]) -> Comparison:
    """Judge one quantity, a key of `GATED`, from at least one duet.

    The comparison is open while one of its metrics is, and another duet may be measured.
    """
    found = Comparison.from_metrics([_compare_metric(metric, duets) for metric in GATED[quantity]])
    return replace(found, is_open=found.is_open and len(duets) < MAX_DUETS)


def decide_in_duets(
    quantity: str,
    duets: list[Duet],
    run_duet: Callable[[], Duet],
    is_waived: Callable[[Comparison], bool] = lambda _: False,
) -> Comparison:
    """Run duets and append them to `duets` until the quantity is decided.

    `run_duet` raises OutOfTimeError if there is no time for another duet. `is_waived` says whether
    a metric's regression is accepted, so that the others still need to be decided.
    """
    if not duets:
        duets.append(run_duet())
    return compare_until_decided(
        partial(decide, quantity, duets), lambda _: duets.append(run_duet()), is_waived
    )


def _compare_metric(metric: Metric, duets: Sequence[Duet]) -> Comparison:
    difference = next((duet.difference for duet in duets if duet.difference), "")
    name, is_once = metric.name, metric in ONCE
    pairs = [
        list(zip(duet.base.get(name, ()), duet.now.get(name, ()), strict=False)) for duet in duets
    ]
    if not any(pairs) and (is_once or any(name not in duet.base for duet in duets if duet.now)):
        difference = difference or "not every session has it"
    if difference:
        unjudged = Comparison(Outcome.NOT_COMPARED, metric.name, 0.0, None, "")
        return mark_if_not_comparable(unjudged, difference, "")
    least = 1 if is_once else MIN_SLICES
    timed = [each for each in zip(pairs, duets, strict=True) if len(each[0]) >= least]
    slices = [_keep_quiet(each, duet.busy_elsewhere_fraction) for each, duet in timed]
    if not slices:
        most = max(map(len, pairs))
        epoch, way_out = duets[-1].epoch_batches, "give a larger budget"
        if epoch is not None:
            way_out = f"an epoch of {epoch} batches is too short: let the loader go on (repeat)"
        reason = f"{metric.name}: only {most} slices fitted into a duet; {way_out}"
        is_open = len(duets) < MIN_DUETS
        return Comparison(Outcome.INCONCLUSIVE, metric.name, 0.0, None, reason, is_open=is_open)
    shares_cores = duets[-1].shares_cores
    is_shared_step = shares_cores and metric.is_step_time
    spread = _STEP_SPREAD_ON_SHARED_CORES if is_shared_step else metric.process_spread
    last_interval, early_interval, open_interval = _intervals(metric, slices, spread)
    bound = metric.duet_bound_change
    is_last = len(duets) >= MAX_DUETS
    outcome = _judge(last_interval if is_last else early_interval, bound, len(slices))
    is_sure = len(slices) >= _MIN_DUETS_FOR_CHANGE
    if is_last and outcome is Outcome.PASS and open_interval.high > max(bound, _HIDDEN_CHANGE):
        outcome = Outcome.INCONCLUSIVE
    figures = _format_figures(metric, last_interval)
    why = "varies too much to be sure" if is_sure else "another duet must agree"
    doubt = f": {why}" if outcome is Outcome.INCONCLUSIVE else ""
    # The trimmed mean omits pauses, such as those of a loader that opens a file now and then. Other
    # programs may use the cores during pauses, so all slices count here.
    means = (
        [metric.to_level(fmean(side)) for side in zip(*each, strict=True)] for each, _ in timed
    )
    pauses = min(now - base for base, now in means)
    if outcome in NO_WORSE and pauses > max(bound, _HIDDEN_CHANGE):
        outcome = Outcome.INCONCLUSIVE
        doubt = f", but with pauses at least {metric.format_change(pauses)} in every duet"
    found = Comparison(
        metric=metric.name,
        outcome=outcome,
        now=median(median(now for _, now in each) for each in slices),
        then=median(median(base for base, _ in each) for each in slices),
        worse=metric.to_factors(last_interval),
        bound=metric.to_factor(bound),
        reason=f"{figures}, bound {metric.format_change(bound)}{doubt}",
        is_open=len(slices) < MIN_DUETS
        or outcome is Outcome.INCONCLUSIVE
        or (open_interval.low <= bound <= open_interval.high and outcome is not Outcome.REGRESSED),
    )
    is_reported_only = shares_cores and not metric.is_judged_on_shared_cores
    return mark_if_not_comparable(found, "", figures if is_reported_only else "")


def _keep_quiet(
    slices: Sequence[tuple[float, float]], fractions: Sequence[float]
) -> Sequence[tuple[float, float]]:
    """Return the quiet slices; all if too few are quiet, or if there is one value for a duet."""
    quiet = quiet_slices(fractions)
    if len(quiet) < MIN_SLICES or len(slices) != len(fractions):
        return slices
    return [slices[number] for number in quiet]


def _format_figures(metric: Metric, change: Interval) -> str:
    ends = sorted(map(metric.format_change, (change.low, change.high)), key=float)
    return (
        f"{metric.name} is {metric.format_change(change.median)}{'' if metric.is_share else ' x'} "
        f"({' to '.join(ends)}), {format_count(change.n, 'duet')}"
    )


def _intervals(
    metric: Metric, duets: Sequence[Sequence[tuple[float, float]]], spread: float
) -> Iterator[Interval]:
    """Yield the intervals of the change at the last, the early, and the open level.

    `spread` is the expected standard deviation between processes of the same code.
    """
    from scipy.stats import chi2

    estimates = [
        estimate_change([metric.to_level(now) - metric.to_level(base) for base, now in slices])
        for slices in duets
    ]
    changes, variances = zip(*estimates, strict=True)
    change, freedom = fmean(changes), len(changes) - 1
    squares = sum((each - change) ** 2 for each in changes)
    expected = fmean(variances) + spread**2
    # If the duets contradict the expected spread, only their own spread counts.
    if freedom == 0 or squares < chi2.ppf(_CONTRADICTION_LEVEL, freedom) * expected:
        squares += _EXPECTED_FREEDOM * expected
        freedom += _EXPECTED_FREEDOM
    error = sqrt(squares / freedom / len(changes))
    for level in (_LAST_LEVEL, _EARLY_LEVEL, _OPEN_LEVEL):
        reach = student_quantile(level, freedom) * error
        yield Interval(change, change - reach, change + reach, len(changes))


def estimate_change(changes: Sequence[float]) -> tuple[float, float]:
    """Return the trimmed mean of a duet's slice changes, and the mean's variance.

    The changes are in time order; a single one has variance 0. The length of a bootstrap block is
    the square root of the number of slices, rounded up. The variance is scaled up, because blocks
    of this length underestimate it for uncorrelated slices.
    """
    from scipy.stats import trim_mean

    if len(changes) == 1:
        return changes[0], 0.0
    values, slices = np.array(changes), len(changes)
    length = ceil(sqrt(slices))
    draw = np.random.default_rng(0)
    starts = draw.integers(slices - length + 1, size=(_RESAMPLES, ceil(slices / length), 1))
    drawn = values[(starts + np.arange(length)).reshape(_RESAMPLES, -1)[:, :slices]]
    variance = trim_mean(drawn, _TRIMMED_FRACTION, axis=-1).var() * slices / (slices - length)
    return float(trim_mean(values, _TRIMMED_FRACTION)), float(variance)


def _judge(change: Interval, bound: float, duets: int) -> Outcome:
    is_sure = duets >= _MIN_DUETS_FOR_CHANGE
    if change.median > bound:
        return Outcome.REGRESSED if change.low > 0 and is_sure else Outcome.INCONCLUSIVE
    if change.median < -bound and change.high < 0:
        return Outcome.IMPROVED if is_sure else Outcome.INCONCLUSIVE
    return Outcome.PASS
