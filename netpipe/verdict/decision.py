"""Decide why training waits. Pure; the first rule that holds names the kind of verdict.

`quantities` explains the letters in the rules.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from math import ceil, isfinite
from statistics import fmean, median

from netpipe.results import statistics
from netpipe.results.measurement import CACHE_WARMS_UP, PAUSES, Finding, Measurement
from netpipe.results.units import (
    format_count,
    format_percent,
    format_ratio_interval,
    format_seconds,
    format_seconds_interval,
)
from netpipe.verdict import loop_causes, quantities
from netpipe.verdict.kinds import Verdict, VerdictKind
from netpipe.verdict.loop_causes import MIN_SYNC_PROBE
from netpipe.verdict.quantities import AT_RISK_ABOVE, EPSILON
from netpipe.verdict.worker_sizing import advise_workers

Rule = Callable[[Measurement], Verdict | None]
"""Returns a verdict if the rule holds for a measurement, else None."""

_JUDGE_STALLS = "to judge stalls, emulate an accelerator or use a less busy machine"
_MORE_TIME = "give it more time (a larger budget), or use a less busy machine"
_NOTHING = "nothing"
# If other programs take at least this share of the CPU, a little more time does not help.
_MAX_BUSY_FRACTION = 0.5
_MAX_HALF_WIDTH_FRACTION = 0.10  # share of the median; load times that vary more decide nothing
# Findings on what was not checked, which call for no action; documents list them.
_UNCHECKED = ("growth-not-judged", "slow-close")
_JITTER_FRACTION = 0.5  # share of the stall that the worst tenth of the steps holds
# Limit for the upper end of the interval of L / S0: half of the at-risk limit.
_MAX_CLEAR_LOAD_OVER_STEP = 0.4
# A cause that delays every 28th step occurs three times in this many steps.
_MIN_CLEAR_STEPS = 84


def judge(measurement: Measurement) -> Verdict:
    """Return the verdict of the first rule that holds, completed with the common evidence."""
    cause = next(filter(None, (rule(measurement) for rule in RULES)))
    evidence = (*quantities.list_evidence(measurement), *cause.evidence)
    message = f"{cause.kind}: {cause.message}{name_phase(measurement)}"
    advice = cause.next
    if _syncs_but_passes(measurement, cause):
        late = f"{loop_causes.READ_LATE}{loop_causes.name_worst_line(measurement)}"
        advice = late if advice == _NOTHING else f"{advice}; {late}"
    return replace(cause, message=message, evidence=evidence, next=advice)


def _syncs_but_passes(measurement: Measurement, verdict: Verdict) -> bool:
    """Return whether the loop waits for results although the verdict passes."""
    syncs = quantities.excess_probe(measurement) > MIN_SYNC_PROBE
    return syncs and verdict.passes(measurement)


def is_clearly_healthy(measurement: Measurement) -> bool:
    """Return whether a measurement is healthy and all its quantities are far from their limits.

    Only a healthy verdict can be clear: measuring the size of a fault takes more rounds.
    """
    train = quantities.train_over_larger(measurement)
    return (
        judge(measurement).kind == VerdictKind.HEALTHY
        and quantities.load_over_step(measurement).high < _MAX_CLEAR_LOAD_OVER_STEP
        and 1 - EPSILON < train.low <= train.high < 1 + EPSILON
        and quantities.excess_probe(measurement) < MIN_SYNC_PROBE
        and measurement.compilations == 0
        and measurement.distributions is not None
        and measurement.distributions.steps >= _MIN_CLEAR_STEPS
    )


def name_phase(measurement: Measurement) -> str:
    """Return a clause that says which rounds were judged, or "" if all were."""
    warmed = _has_finding(measurement, CACHE_WARMS_UP)
    return f"; judged since loading became faster ({CACHE_WARMS_UP})" if warmed else ""


def _has_finding(measurement: Measurement, name: str) -> bool:
    return any(finding.name == name for finding in measurement.findings)


def find_remarks(measurement: Measurement, verdict: Verdict) -> tuple[Finding, ...]:
    """Return the findings of the protocol, then remarks on figures that the verdict omits."""
    remarks = [each for each in measurement.findings if each.name not in _UNCHECKED]
    if _syncs_but_passes(measurement, verdict):
        done, line = measurement.sync_probe_fraction, loop_causes.name_worst_line(measurement)
        message = (
            f"the step was already done at {format_percent(done)} of the requests for a batch: the "
            f"loop waits for results{line}; {loop_causes.describe_exposed(measurement)}"
        )
        remarks.append(Finding("forced-sync", message))
    if measurement.compilations and verdict.kind != VerdictKind.RECOMPILING:
        message = f"{measurement.compilations} compilations in the rounds, which made them longer"
        remarks.append(Finding("compilations", message))
    own = quantities.over_step(measurement.rounds.step_loaded_s, measurement)
    if own is not None and (own.low > 1 + EPSILON or own.high < 1 - EPSILON):
        message = (
            f"on the loader's batches, a step takes {format_ratio_interval(own)} times as long as "
            "on synthetic ones: its time depends on what a batch contains"
        )
        remarks.append(Finding("step-depends-on-data", message))
    if measurement.busy_elsewhere_fraction > EPSILON:
        taken = format_percent(measurement.busy_elsewhere_fraction)
        remarks.append(Finding("busy-host", f"other programs took {taken} of the host's CPU time"))
    return tuple(remarks)


def _make_doubt_rule(
    explain: Callable[[Measurement], str | None], way_out: str | None = None
) -> Rule:
    """Return a rule whose verdict is INCONCLUSIVE if `explain` returns a reason."""

    def rule(measurement: Measurement) -> Verdict | None:
        reason = explain(measurement)
        if reason is None:
            return None
        rounds = format_count(measurement.step_s.n, "round")
        advice = way_out or _ask_for_time(measurement)
        return Verdict(VerdictKind.INCONCLUSIVE, reason, (rounds,), advice)

    return rule


def _ask_for_time(measurement: Measurement) -> str:
    if measurement.busy_elsewhere_fraction < _MAX_BUSY_FRACTION:
        return _MORE_TIME
    taken = format_percent(measurement.busy_elsewhere_fraction)
    busy = f"other programs took {taken} of the CPU time"
    return f"use a less busy machine, because {busy}, or a much larger budget"


def _explain_too_few_rounds(measurement: Measurement) -> str | None:
    load = measurement.load_s_per_batch
    if isfinite(load.low):
        return None
    return f"only {format_count(load.n, 'round')} fitted into the time; an interval needs 3"


def _explain_no_evidence(measurement: Measurement) -> str | None:
    ended = [each.message for each in measurement.findings if each.name == "loader-ended"]
    if ended and not isfinite(measurement.load_s_per_batch.low):
        return ended[0]
    if measurement.batch_bytes == 0:
        return "the loader's batches are empty"
    if not measurement.losses_are_finite:
        return "the loss is NaN or infinite: such a step may not take its usual time"
    epoch = f"an epoch of {measurement.epoch_batches} batches"
    if not measurement.within_epochs:
        return f"{epoch} is too short to measure: make the loader repeat"
    if not measurement.drained and measurement.epoch_batches is not None:
        return f"the loader's buffers outlast {epoch}: make the loader repeat"
    if not measurement.drained:
        return "the loader's buffers could not be drained in time; use a larger budget"
    gpu, rounds = measurement.gpu, measurement.step_s.n
    if gpu is not None and gpu.foreign_pids:
        return f"other processes were on the GPU: {', '.join(map(str, gpu.foreign_pids))}"
    if gpu is not None and gpu.throttled_rounds:
        reasons = ", ".join(gpu.throttle_reasons)
        return f"the GPU was throttled in {gpu.throttled_rounds} of {rounds} rounds: {reasons}"
    return None


def _explain_undecided_health(measurement: Measurement) -> str | None:
    """Return why it is undecided whether training stalls or the loader is at risk, or None."""
    seems_to_stall = quantities.seems_to_stall(measurement)
    if seems_to_stall and (reason := _explain_undecided_stall(measurement)):
        return reason
    return _explain_rare_stalls(measurement) or _explain_undecided_limit(measurement, AT_RISK_ABOVE)


def _explain_rare_stalls(measurement: Measurement) -> str | None:
    """Report pauses in a few rounds that cost time without changing the median of R."""
    mean = fmean(measurement.rounds.train_s_per_step) / quantities.own_step_s(measurement)
    shares_cores = measurement.device.shares_host_cores
    if shares_cores or mean <= 1 + EPSILON or not _has_finding(measurement, PAUSES):
        return None
    return f"the loader paused in some rounds: R over the step is {mean:.2f} in the mean over all"


def _explain_undecided_stall(measurement: Measurement) -> str | None:
    train = quantities.train_over_larger(measurement)
    if not train.low <= 1 + EPSILON < train.high:
        return None
    ratio = format_ratio_interval(train)
    return f"R is {ratio} of the larger of L and the step, on both sides of a limit"


def _explain_undecided_limit(measurement: Measurement, limit: float) -> str | None:
    load, ratio = measurement.load_s_per_batch, quantities.load_over_step(measurement)
    if not ratio.low < limit < ratio.high:
        return None
    if statistics.half_width_fraction(load) > _MAX_HALF_WIDTH_FRACTION:
        return f"loading a batch took {format_seconds_interval(load)}, too variable to tell"
    return f"L over the step is {format_ratio_interval(ratio)}, on both sides of a limit"


def _judge_recompiling(measurement: Measurement) -> Verdict | None:
    by_round, count = measurement.rounds.compilations, measurement.compilations
    # Compilations that stop, or are rare, are only worth a remark.
    goes_on = by_round and by_round[-1] > 0 and 2 * sum(map(bool, by_round)) > len(by_round)
    if not goes_on:
        return None
    return Verdict(
        VerdictKind.RECOMPILING,
        f"{count} compilations inside the timed windows",
        (f"{count} compilations in {format_count(measurement.step_s.n, 'round')}",),
        "give the step batches of one shape and dtype; JAX_LOG_COMPILES=1 logs each compilation",
    )


def _judge_loader_bound(measurement: Measurement) -> Verdict | None:
    rounds, step_s = measurement.rounds, quantities.own_step_s(measurement)
    load_s, kind, hidden = measurement.load_s_per_batch.median, VerdictKind.LOADER_BOUND, ""
    # On a CPU device the loader and the step compete for cores, so a slow loader also looks serial.
    serial = not measurement.device.shares_host_cores and quantities.is_serial(measurement)
    costs_more = quantities.excess_s(measurement) > load_s - step_s
    if (serial and costs_more) or quantities.load_over_step(measurement).low <= 1 + EPSILON:
        return None
    train_over_load = statistics.ratio_interval(rounds.train_s_per_step, rounds.load_s_per_batch)
    if train_over_load.high < 1 - EPSILON:
        kind, until = VerdictKind.MASKED_LOADER_BOUND, "for a while"
        if measurement.buffered_batches:
            # A loader behind B buffered batches becomes visible at step n0 = B / (1 - S0/L).
            step = measurement.buffered_batches / (1 - step_s / load_s)
            until = f"until about step {step:.0f}"
        hidden = f"; only the buffers hide it, {until}"
    return Verdict(
        kind,
        f"loading a batch takes {format_seconds(load_s)}, "
        f"the step {format_seconds(step_s)}{hidden}",
        (),
        " or ".join(filter(None, ("make loading faster", advise_workers(measurement))))
        + "; netpipe diagnose finds the change",
    )


def _judge_stall(measurement: Measurement) -> Verdict | None:
    """Return why training stalls if neither a sync nor a slow loader is the cause."""
    if not quantities.certainly_stalls(measurement):
        return None
    return next(filter(None, (rule(measurement) for rule in _STALL_RULES)))


def _judge_jitter(measurement: Measurement) -> Verdict | None:
    """Find a stall that is concentrated in a few steps, whatever the load time is."""
    if not quantities.certainly_stalls(measurement):
        return None
    waits, worst = measurement.wait_s, measurement.worst_tenth_fraction
    steps = measurement.distributions
    longest_s = steps.wait_s[-1] if steps else waits.p99
    ahead = ceil(longest_s / quantities.own_step_s(measurement))
    # On a CPU device, any other program can delay steps.
    if worst < _JITTER_FRACTION or measurement.device.shares_host_cores:
        return None
    return Verdict(
        VerdictKind.JITTER,
        f"the worst tenth of the steps holds {format_percent(worst)} of the stall",
        (
            f"CV of load times {waits.cv:.2f}",
            f"waits p50 {format_seconds(waits.p50)}, p99 {format_seconds(waits.p99)}",
            f"{measurement.dispatch_depth} steps in flight at most",
        ),
        f"prefetch at least {ahead} batches ahead to hide a "
        f"wait of {format_seconds(longest_s)}, or find out why some batches are late",
    )


def _judge_likely_contention(measurement: Measurement) -> Verdict | None:
    """Find contention on a CPU device if R and S1 agree, although neither is certain.

    Contention passes there, so two medians are enough; one may be due to other programs.
    """
    shadow = quantities.over_step(measurement.rounds.step_shadow_s, measurement)
    is_shared = measurement.device.shares_host_cores
    agrees = shadow is not None and shadow.median > 1 + EPSILON
    if not (is_shared and agrees and quantities.seems_to_stall(measurement)):
        return None
    return _judge_contention(measurement)


def _judge_contention(measurement: Measurement) -> Verdict | None:
    shadow = quantities.over_step(measurement.rounds.step_shadow_s, measurement)
    is_shared = measurement.device.shares_host_cores
    slowed = shadow is not None and shadow.low > 1 + EPSILON
    if not slowed and not is_shared:
        return None
    slow = "slow" if quantities.certainly_stalls(measurement) else "seem to slow"
    return Verdict(
        VerdictKind.CONTENTION,
        f"the loader and the step {slow} each other"
        + (f" on the same {measurement.host.cores} cores" if is_shared else ""),
        (f"S1/S0 beside the loader = {format_ratio_interval(shadow)}",),
        "leave cores to the step's host thread: fewer workers, or work moved out of its process",
    )


def _judge_transfer_bound(measurement: Measurement) -> Verdict | None:
    rounds = measurement.rounds
    if not rounds.step_transfer_s:
        return None
    transfer = statistics.ratio_interval(rounds.step_transfer_s, rounds.own_step_s)
    copying_s = median(rounds.step_transfer_s) - quantities.own_step_s(measurement)
    if transfer.low <= 1 + EPSILON or copying_s < 0.5 * quantities.excess_s(measurement):
        return None
    return Verdict(
        VerdictKind.TRANSFER_BOUND,
        f"copying {measurement.batch_bytes:,} bytes a batch to the device slows the step to "
        f"{format_ratio_interval(transfer)} times its own time",
        (f"S2 over a step without copies = {format_ratio_interval(transfer)}",),
        "send narrower dtypes, or copy the next batch while the step runs",
    )


def _judge_unexplained(measurement: Measurement) -> Verdict:
    kind, next_ = VerdictKind.UNEXPLAINED, "look at a profiler trace of the loop"
    reason = (
        f"a real step takes {format_seconds(measurement.train_s_per_step.median)}, and neither "
        "loading, syncs, contention nor transfers account for it"
    )
    if quantities.is_serial(measurement):
        kind, reason = VerdictKind.NO_OVERLAP, "loading and computing run one after the other"
        next_ = "let loading run ahead of the step (prefetch in a thread or in workers)"
    evidence = (
        f"S_sync = {format_seconds_interval(measurement.step_synced_s)}",
        f"S1 beside the loader = {format_seconds_interval(measurement.step_shadow_s)}",
        f"S2 with transfers = {format_seconds_interval(measurement.step_transfer_s)}",
        f"H = {format_seconds_interval(measurement.host_s_per_step)} a step",
        f"sync probe {measurement.sync_probe_fraction:.2f}",
    )
    return Verdict(kind, reason, evidence, next_)


def _judge_at_risk(measurement: Measurement) -> Verdict | None:
    if not AT_RISK_ABOVE < quantities.load_over_step(measurement).low <= 1 + EPSILON:
        return None
    return Verdict(
        VerdictKind.AT_RISK,
        f"L over the step is {format_ratio_interval(quantities.load_over_step(measurement))}; a "
        f"slightly faster accelerator would wait{_describe_open_stall(measurement)}",
        (),
        "make loading faster before the accelerator is",
    )


def _judge_healthy(measurement: Measurement) -> Verdict:
    batches, open_stall = measurement.watched_batches, _describe_open_stall(measurement)
    return Verdict(
        VerdictKind.HEALTHY,
        f"loading a batch takes {format_seconds(measurement.load_s_per_batch.median)}, the step "
        f"{format_seconds(measurement.step_s.median)}: headroom {measurement.headroom.median:.2f}"
        + (f", over {batches:,} batches" if batches else "")
        + open_stall,
        (),
        _JUDGE_STALLS if open_stall else _NOTHING,
    )


def _describe_open_stall(measurement: Measurement) -> str:
    """Return a clause if R was not judged, because its interval is wide on a CPU device."""
    reason = _explain_undecided_stall(measurement)
    if reason is None or not measurement.device.shares_host_cores:
        return ""
    return f"; whether training stalls is open: {reason}"


_STALL_RULES: tuple[Rule, ...] = (
    _judge_transfer_bound,
    loop_causes.judge_host_bound,
    _judge_contention,
    _judge_unexplained,
)
# A doubt comes before the first rule that it affects, and after the rules that it does not affect.
RULES: tuple[Rule, ...] = (
    _judge_recompiling,
    _make_doubt_rule(_explain_no_evidence, "fix what the message names, then measure again"),
    _make_doubt_rule(_explain_too_few_rounds),
    loop_causes.judge_forced_sync,
    _judge_loader_bound,
    _judge_jitter,
    _make_doubt_rule(partial(_explain_undecided_limit, limit=1 + EPSILON)),
    _judge_stall,
    _make_doubt_rule(loop_causes.explain_undecided_sync),
    _judge_likely_contention,
    _make_doubt_rule(_explain_undecided_health),
    _judge_at_risk,
    _judge_healthy,
)
