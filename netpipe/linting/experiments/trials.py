"""Fixes that are verified: what each gives on this machine, before and after in one run."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial, reduce
from math import isfinite
from operator import or_
from statistics import median
from typing import Final

from netpipe.clock import Clock
from netpipe.linting.experiments.alternation import NO_TIME, VariantBlocks, VariantComparison
from netpipe.linting.experiments.blocks import MeasureBlock, Pace, measure_block
from netpipe.linting.experiments.fixes import Fix, fixes_for
from netpipe.linting.experiments.variants import Variant
from netpipe.linting.linter import LintReport
from netpipe.measuring.loader_puller import LoaderFactory
from netpipe.results.measurement import Interval
from netpipe.results.statistics import ratio_interval
from netpipe.results.units import format_seconds
from netpipe.session.heartbeat import UNWATCHED, Watch

_PLAIN_FACTOR: Final = 3.0  # of time, that one alternation shows well enough to be told
ALL: Final = "all"  # in the place of a rule: the fixes that were not seen to be slower, together


@dataclass(frozen=True)
class Trial:
    """What a fix gives on this machine.

    Attributes:
        rule: The rule whose finding it mends; `ALL` for several together.
        change: The call to write instead.
        message: What came of it, in a sentence.
        before_s_per_batch: Seconds of a batch of the pipeline as it is; None: not measured.
        after_s_per_batch: Seconds of as many elements with the change.
        before_cpu_s_per_batch: CPU seconds of them, of all processes, as it is.
        after_cpu_s_per_batch: The same with the change.
        ratio: Before over after, over the rounds: above 1 is faster. None: not measured often
            enough to have an interval.
    """

    rule: str
    change: str
    message: str
    before_s_per_batch: float | None = None
    after_s_per_batch: float | None = None
    before_cpu_s_per_batch: float | None = None
    after_cpu_s_per_batch: float | None = None
    ratio: Interval | None = None

    def to_document(self) -> dict[str, object]:
        """Return the trial as plain JSON values."""
        return asdict(self)


def try_fixes(
    loader: LoaderFactory,
    report: LintReport,
    cores: int,
    clock: Clock,
    budget_s: float,
    watch: Watch = UNWATCHED,
    measure: MeasureBlock | None = None,
    tell: Callable[[str], object] = lambda _: None,
) -> tuple[Trial, ...]:
    """Measure what each proposed fix gives, and what those give together that are not slower.

    Workers are started: Grain must have been allowed to. What hangs is ended.

    Args:
        loader: Makes the pipeline; called anew for each block of a measurement.
        report: What the rules found in it.
        cores: CPU cores that the process may use.
        clock: Seconds.
        budget_s: Seconds for all trials; what runs when they are over is given up soon after.
        watch: Told of every wait for a batch.
        measure: What measures a block; by default `measure_block`.
        tell: Is told what is being done.

    Returns:
        One trial for each fix, then the one of several together where there is one.
    """
    fixes = fixes_for(report, cores)
    measure = measure or partial(measure_block, clock=clock, watch=watch)
    bench = VariantComparison(loader, clock, budget_s, measure, tell)
    compared = _compared(bench, fixes)
    trials = [_trial(fix, compared[fix.overlaps]) for fix in fixes]
    together = _together(fixes, trials)
    if together is None:
        return tuple(trials)
    fix, variant = together
    return (*trials, _trial(fix, bench.compare([variant], 1.0, fix.overlaps)))


def apply_trials(report: LintReport, trials: Sequence[Trial]) -> LintReport:
    """Return the report with a warning as a remark where all its proposals were clearly slower.

    A source that waits for storage, say, needs the threads that the rules warn of.
    """
    seen: dict[str, list[Trial]] = {}
    for trial in trials:
        seen.setdefault(trial.rule, []).append(trial)
    slower = {
        rule
        for rule, ones in seen.items()
        if all(trial.ratio is not None and trial.ratio.high < 1 for trial in ones)
    }
    proof = "not so here: what the fix proposes was measured to be slower"
    return replace(
        report,
        findings=tuple(
            replace(finding, severity="info", proof=proof)
            if finding.rule in slower and finding.severity == "warning"
            else finding
            for finding in report.findings
        ),
    )


def _compared(
    bench: VariantComparison, fixes: Sequence[Fix]
) -> Mapping[bool, Mapping[Variant, VariantBlocks]]:
    """Compare flat out, and stepping what would not show that way: with a before of their own."""
    variants = {
        stepping: tuple(
            dict.fromkeys(fix.variant for fix in fixes if fix.variant and fix.overlaps is stepping)
        )
        for stepping in (False, True)
    }
    sides = {stepping: 1 + len(one) if one else 0 for stepping, one in variants.items()}
    # One more comparison, of two sides, may follow.
    later = 2 if sum(map(len, variants.values())) > 1 else 0
    first = bool(fixes and fixes[0].overlaps)
    share = {first: sides[first] / max(1, sum(sides.values()) + later)}
    share[not first] = sides[not first] / max(1, sides[not first] + later)
    return {
        stepping: bench.compare(variants[stepping], part, stepping) if variants[stepping] else {}
        for stepping, part in share.items()
    }


def _together(fixes: Sequence[Fix], trials: Sequence[Trial]) -> tuple[Fix, Variant] | None:
    """Join the best fix of each rule; None where that was tried already."""
    best: dict[str, tuple[float, Fix, Variant]] = {}
    for fix, trial in zip(fixes, trials, strict=True):
        if fix.variant is None or trial.ratio is None or trial.ratio.high < 1:
            continue
        if fix.rule not in best or trial.ratio.median > best[fix.rule][0]:
            best[fix.rule] = (trial.ratio.median, fix, fix.variant)
    variants = [variant for _, _, variant in best.values()]
    if not variants or (joined := reduce(or_, variants)) in variants:
        return None
    change = "; ".join(dict.fromkeys(fix.change for _, fix, _ in best.values()))
    overlaps = any(fix.overlaps for _, fix, _ in best.values())
    return Fix(ALL, change, joined, overlaps=overlaps), joined


def _trial(fix: Fix, compared: Mapping[Variant, VariantBlocks]) -> Trial:
    if fix.variant is None:
        why = f"cannot be tried: {fix.why_not}. Move the call in your code"
        return Trial(fix.rule, fix.change, why)
    return judged(fix, compared[fix.variant])


def judged(fix: Fix, compared: VariantBlocks) -> Trial:
    """Say what a fix gives.

    Args:
        fix: What was tried.
        compared: The pipeline before and after.
    """
    before, after = compared.before, compared.after
    if compared.failure or not before:
        why = compared.failure or NO_TIME
        return Trial(fix.rule, fix.change, f"not measured: {why}")
    elements = median(block.elements_per_batch for block in before)
    before_s, after_s = ([block.s_per_element for block in side] for side in (before, after))
    ratio = ratio_interval(before_s, after_s)
    times = (
        elements * median(before_s),
        elements * median(after_s),
        elements * median(block.cpu_s_per_element for block in before),
        elements * median(block.cpu_s_per_element for block in after),
    )
    known = ratio if isfinite(ratio.low) and isfinite(ratio.high) else None
    message = _said(ratio, times[3] / times[2] if times[2] else 1.0, _figures(*times))
    return Trial(fix.rule, fix.change, f"{_how(compared.pace)}{message}", *times, known)


def _how(pace: Pace) -> str:
    by = "by whole epochs, the start of the workers included" if pace.from_start else ""
    step = f"with a step as long as a batch ({format_seconds(pace.step_s)})" if pace.step_s else ""
    told = ", ".join(one for one in (step, by) if one)
    return told and f"{told}: "


def _figures(before_s: float, after_s: float, before_cpu_s: float, after_cpu_s: float) -> str:
    return (
        f"{format_seconds(after_s)} instead of {format_seconds(before_s)} per batch, and"
        f" {format_seconds(after_cpu_s)} of CPU time instead of {format_seconds(before_cpu_s)}"
    )


def _plain(ratio: float, cpu_ratio: float) -> str:
    """Tell of a difference that is plain even without an interval; "" if there is none."""
    if ratio * _PLAIN_FACTOR < 1:
        return f"{1 / ratio:.2g} times slower"
    if ratio > _PLAIN_FACTOR:
        return f"{ratio:.2g} times as fast"
    return f"{cpu_ratio:.2g} times the CPU time" if cpu_ratio > _PLAIN_FACTOR else ""


def _said(ratio: Interval, cpu_ratio: float, figures: str) -> str:
    times = f"{ratio.median:.3g} times as fast"
    if not isfinite(ratio.high):
        rounds = "one alternation" if ratio.n == 1 else f"{ratio.n} alternations"
        plain = _plain(ratio.median, cpu_ratio)
        told = f"but {plain}" if plain else times
        return f"not decided, {told} in the {rounds} there was time for: {figures}"
    spread = f"{times} ({ratio.low:.3g} to {ratio.high:.3g})"
    if ratio.low > 1:
        return f"{spread}: {figures}"
    if ratio.high < 1:
        return f"slower, {spread}: {figures}"
    return f"no clear difference, {spread}: {figures}"
