"""Measures the gain of each fix on this machine, before and after in one run."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from math import isfinite
from operator import attrgetter, or_
from statistics import median
from typing import Final, TypedDict

from netpipe.clock import Clock
from netpipe.grain_access.dataset_variants import Variant
from netpipe.jobs.targets import LoaderFactory
from netpipe.linting.experiments.fixes import Fix, fixes_for
from netpipe.linting.experiments.variant_comparison import (
    MeasureBlock,
    Pace,
    VariantBlocks,
    VariantComparison,
    measure_block,
)
from netpipe.linting.linter import LintReport
from netpipe.results.fields import Amount, Interval, PositiveAmount
from netpipe.results.statistics import ratio_interval
from netpipe.results.units import format_seconds

ALL: Final = "all"
"""Stands in for the rule in a trial of all fixes that were not measured to be slower."""


@dataclass(frozen=True)
class Trial:
    """The gain of a fix on this machine."""

    rule: str  #: The rule whose finding it fixes, or `ALL`.
    change: str  #: The call to write instead.
    message: str  #: The result in words.
    #: Seconds of a batch of the unchanged pipeline; None: not measured.
    before_s_per_batch: PositiveAmount | None = None
    after_s_per_batch: PositiveAmount | None = None  #: Seconds of as many elements with the fix.
    #: CPU seconds of a batch of the unchanged pipeline, all processes.
    before_cpu_s_per_batch: Amount | None = None
    after_cpu_s_per_batch: Amount | None = None  #: The same with the fix.
    #: Before divided by after, over the rounds; above 1 is faster. None if there were too few
    #: rounds for an interval.
    ratio: Interval | None = None

    @property
    def is_slower(self) -> bool:
        """Whether the change is clearly slower."""
        return self.ratio is not None and self.ratio.high < 1


class PrintedTrials(TypedDict):
    """The trials of a lint document."""

    #: The trial of each proposed change, measured before and after in one run; empty unless
    #: requested.
    trials: list[Trial]


def try_fixes(
    loader: LoaderFactory,
    report: LintReport,
    cores: int,
    clock: Clock,
    budget_s: float,
    measure: MeasureBlock | None = None,
    report_progress: Callable[[str], object] = lambda _: None,
) -> tuple[Trial, ...]:
    """Measure the gain of each proposed fix, and of all fixes together that are not slower.

    Grain must be allowed to start workers. A loader that hangs is killed. The budget is for all
    trials; a block still running when the budget runs out is abandoned soon after.

    Returns:
        One trial of each fix, then one of the combined fixes if they make another variant.
    """
    fixes = fixes_for(report, cores)
    measure = measure or partial(measure_block, clock=clock)
    comparison = VariantComparison(loader, clock, budget_s, measure, report_progress)
    trials = _try_each(comparison, fixes)
    together = _join(fixes, trials)
    if together is None:
        return trials
    compared = comparison.compare([together.variant], 1.0, together.overlaps)
    return (*trials, evaluate(together, compared[together.variant]))


def apply_trials(report: LintReport, trials: Sequence[Trial]) -> LintReport:
    """Return the report with warnings turned into remarks if all their fixes were clearly slower.

    For example, a source that waits for storage needs the threads that a rule warns about.
    """
    slower = {trial.rule for trial in trials}.difference(
        trial.rule for trial in trials if not trial.is_slower
    )
    proof = "not here: the proposed fix was measured to be slower"
    findings = (
        replace(finding, severity="info", proof=proof)
        if finding.rule in slower and finding.severity == "warning"
        else finding
        for finding in report.findings
    )
    return replace(report, findings=tuple(findings))


def _try_each(comparison: VariantComparison, fixes: Sequence[Fix]) -> tuple[Trial, ...]:
    """Return a trial of each fix, at full speed, or beside a step if its gain shows only there."""
    variants: dict[bool, dict[Variant, None]] = {}
    for fix in fixes:
        if not fix.why_not:
            variants.setdefault(fix.overlaps, {})[fix.variant] = None
    sides_left = sum(1 + len(each) for each in variants.values())
    # A comparison of the combined fixes may follow.
    sides_left += 2 if sum(map(len, variants.values())) > 1 else 0
    compared: dict[bool, Mapping[Variant, VariantBlocks]] = {}
    for overlaps, each in variants.items():
        sides = 1 + len(each)
        compared[overlaps] = comparison.compare(list(each), sides / sides_left, overlaps)
        sides_left -= sides
    return tuple(
        Trial(fix.rule, fix.change, f"cannot be tried: {fix.why_not}. Move the call in your code")
        if fix.why_not
        else evaluate(fix, compared[fix.overlaps][fix.variant])
        for fix in fixes
    )


def _join(fixes: Sequence[Fix], trials: Sequence[Trial]) -> Fix | None:
    """Return the best fixes of all rules combined; None if there are none or this was tried."""
    best: dict[str, tuple[Fix, float]] = {}
    for fix, trial in zip(fixes, trials, strict=True):
        if trial.ratio and not trial.is_slower:
            ratio = trial.ratio.median
            if fix.rule not in best or ratio > best[fix.rule][1]:
                best[fix.rule] = fix, ratio
    chosen = [fix for fix, _ in best.values()]
    variants = [fix.variant for fix in chosen]
    if not variants or (joined := reduce(or_, variants)) in variants:
        return None
    change = "; ".join(dict.fromkeys(fix.change for fix in chosen))
    return Fix(ALL, change, joined, overlaps=any(fix.overlaps for fix in chosen))


def evaluate(fix: Fix, compared: VariantBlocks) -> Trial:
    """Return the gain of a fix, from the blocks without and with it."""
    before, after = compared.before, compared.after
    if compared.failure:
        return Trial(fix.rule, fix.change, f"not measured: {compared.failure}")
    wall_s, cpu_s = attrgetter("s_per_element"), attrgetter("cpu_s_per_element")
    ratio = ratio_interval(list(map(wall_s, before)), list(map(wall_s, after)))
    # A fix may change the batch size: both times are for a batch of the unchanged pipeline.
    elements = median(block.elements_per_batch for block in before)
    sides = ((cost, blocks) for cost in (wall_s, cpu_s) for blocks in (before, after))
    times_s = (elements * median(map(cost, blocks)) for cost, blocks in sides)
    before_s, after_s, before_cpu_s, after_cpu_s = times_s
    message = (
        f"{_describe_pace(compared.pace)}{_describe_ratio(ratio)}:"
        f" {format_seconds(after_s)} instead of {format_seconds(before_s)} per batch, and"
        f" {format_seconds(after_cpu_s)} of CPU time instead of {format_seconds(before_cpu_s)}"
    )
    known = ratio if isfinite(ratio.low) and isfinite(ratio.high) else None
    return Trial(fix.rule, fix.change, message, before_s, after_s, before_cpu_s, after_cpu_s, known)


def _describe_pace(pace: Pace) -> str:
    step = f"with a step as long as a batch ({format_seconds(pace.step_s)})" if pace.step_s else ""
    epochs = "by whole epochs, the start of the workers included" if pace.from_start else ""
    conditions = ", ".join(filter(None, (step, epochs)))
    return f"{conditions}: " if conditions else ""


def _describe_ratio(ratio: Interval) -> str:
    times = f"{ratio.median:.3g} times as fast"
    if isfinite(ratio.high):
        spread = f"{times} ({ratio.low:.3g} to {ratio.high:.3g})"
        if ratio.low > 1:
            return spread
        return f"slower, {spread}" if ratio.high < 1 else f"no clear difference, {spread}"
    rounds = "one alternation" if ratio.n == 1 else f"{ratio.n} alternations"
    return f"not decided, {times} in the {rounds} there was time for"
