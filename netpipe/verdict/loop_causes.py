"""Causes in the trainer's own thread: it waits for the device, or its own work takes too long.

`quantities` explains the letters.
"""

from netpipe.results.measurement import Measurement
from netpipe.results.units import (
    format_percent,
    format_ratio_interval,
    format_seconds,
    format_seconds_interval,
)
from netpipe.verdict import quantities
from netpipe.verdict.kinds import Verdict, VerdictKind
from netpipe.verdict.quantities import EPSILON

READ_LATE = "read metrics a step late, or every n steps"
# If more than this share of requests find the step done, the loop syncs.
MIN_SYNC_PROBE = 0.02
# If steps without a loop exceed this share, the probe proves nothing.
_MAX_IDLE_PROBE = 0.2
# A line counts as waiting if the thread computes for a smaller share of the line's time.
_MAX_WAITING_WORK_FRACTION = 0.15
# If waiting lines take at least this share of the loop's time, waits explain finished steps.
_MIN_WAITING_FRACTION = 0.25
# Relative to the step time: a few threads cannot make less work last for a whole step.
_MIN_SLOWED_WORK_RATIO = 0.2


def judge_forced_sync(measurement: Measurement) -> Verdict | None:
    """Return a verdict if the loop waits for the device, or if it only seems to wait."""
    stalls = quantities.certainly_stalls(measurement)
    exposed_time = quantities.exposed_time(measurement)
    # If the step time varies widely, R may not show a stall although a sync is costly.
    exposed = exposed_time is not None and exposed_time[0].low > EPSILON
    if not (stalls or exposed):
        return None
    if measurement.sync_probe_idle_fraction > _MAX_IDLE_PROBE:
        # Either the step blocks until it is done, or it is too short for the probe.
        waits = _waiting_fraction(measurement) >= 0.5 and quantities.is_serial(measurement)
        if not stalls or not waits or _work_explains(measurement):
            return None
        return _make_forced_sync(measurement, measurement.sync_probe_fraction)
    probe = quantities.excess_probe(measurement)
    if probe <= MIN_SYNC_PROBE or not (exposed or _sync_explains_stall(measurement, probe)):
        return None
    # If the loop's own work outlasts the step, the next request also finds the step done.
    outlasts_step = quantities.host_s(measurement) > _synced_s(measurement)
    if outlasts_step or _leaves_no_wait(measurement, probe):
        return _make_host_bound(measurement)
    return _judge_slowed_work(measurement) or _make_forced_sync(measurement, probe)


def explain_undecided_sync(measurement: Measurement) -> str | None:
    """Return why a sync may or may not cost more than the limit; None if that is clear."""
    exposed_time, probe = quantities.exposed_time(measurement), quantities.excess_probe(measurement)
    syncs = probe > MIN_SYNC_PROBE and measurement.sync_probe_idle_fraction <= _MAX_IDLE_PROBE
    if exposed_time is None or not syncs:
        return None
    if not exposed_time[0].low <= EPSILON < exposed_time[0].median:
        return None
    ratio = format_ratio_interval(exposed_time[0])
    return f"after a sync the device idles {ratio} of R, on both sides of a limit"


def _sync_explains_stall(measurement: Measurement, probe: float) -> bool:
    # After a sync the device idles for the time that would have overlapped: the shorter of loading
    # and computing, the loop's own work, and waking up to dispatch the next step.
    waking_s = max(0.0, _synced_s(measurement) - measurement.step_s.median)
    hidden_s = quantities.smaller_s(measurement) + quantities.host_s(measurement) + waking_s
    return probe * hidden_s >= 0.5 * quantities.excess_s(measurement)


def _leaves_no_wait(measurement: Measurement, probe: float) -> bool:
    """Return whether loading and the loop's own work explain R without waits for the device."""
    explained_s = measurement.wait_s.p50 + quantities.host_s(measurement)
    left_s = measurement.train_s_per_step.median - explained_s
    return _work_explains(measurement) and left_s <= 0.5 * probe * _synced_s(measurement)


def _judge_slowed_work(measurement: Measurement) -> Verdict | None:
    """Find a loop whose samples show work instead of waiting, slowed down by loader threads.

    Worker processes do not slow the loop down, because they do not share its Python lock.
    """
    host_s, step_s = quantities.host_s(measurement), quantities.own_step_s(measurement)
    beside_loading_s = measurement.train_s_per_step.median - measurement.wait_s.p50
    slowed = beside_loading_s > (1 + EPSILON) * max(host_s, step_s)
    if measurement.loader_processes or not slowed or host_s < _MIN_SLOWED_WORK_RATIO * step_s:
        return None
    waits = _waiting_fraction(measurement) >= _MIN_WAITING_FRACTION
    if waits or not measurement.blocking_lines:
        return None
    return Verdict(
        VerdictKind.CONTENTION,
        f"the loop's own work{name_worst_line(measurement)} takes {format_seconds(host_s)} a step "
        "alone, and longer than the step beside the loader",
        _describe_work(measurement),
        "load in worker processes (mp_prefetch): threads share Python's lock with the loop",
    )


def _waiting_fraction(measurement: Measurement) -> float:
    """Return the share of the loop's time at lines where it waits."""
    lines = measurement.blocking_lines
    return sum(
        line.fraction for line in lines if line.working_fraction < _MAX_WAITING_WORK_FRACTION
    )


def _make_forced_sync(measurement: Measurement, probe: float) -> Verdict:
    train_s = measurement.train_s_per_step.median
    exposed_time, cost_s = quantities.exposed_time(measurement), quantities.excess_s(measurement)
    if exposed_time is not None and not quantities.certainly_stalls(measurement):
        cost_s = exposed_time[1]
    return Verdict(
        VerdictKind.FORCED_SYNC,
        f"the loop waits for the device {probe:.2f} times a step{name_worst_line(measurement)}; a "
        f"step takes {format_seconds(train_s)} where {format_seconds(train_s - cost_s)} would do",
        (
            f"sync probe {probe:.2f} syncs a step",
            describe_exposed(measurement),
            *_list_lines(measurement),
        ),
        f"{READ_LATE}: no float(), item(), np.asarray() or block_until_ready() on what the last "
        "step returned",
    )


def describe_exposed(measurement: Measurement) -> str:
    """Return a clause that states the measured cost of a sync."""
    exposed_time = quantities.exposed_time(measurement)
    if exposed_time is None:
        return "its cost was not measured"
    fraction, idle_s = format_ratio_interval(exposed_time[0]), format_seconds(exposed_time[1])
    return f"the device idles {idle_s} a step after a sync, {fraction} of R"


def name_worst_line(measurement: Measurement) -> str:
    """Return a phrase that names the line that blocks most; "" if it is unknown."""
    if not measurement.blocking_lines:
        return ""
    worst = measurement.blocking_lines[0]
    return f", at {worst.file}:{worst.line} `{worst.code}`"


def _describe_work(measurement: Measurement) -> tuple[str, ...]:
    work = f"H = {format_seconds_interval(measurement.host_s_per_step)} a step"
    return (work, *_list_lines(measurement))


def _list_lines(measurement: Measurement) -> tuple[str, ...]:
    return tuple(
        f"{format_percent(at.fraction)} of the loop's time at {at.file}:{at.line}: {at.code}"
        for at in measurement.blocking_lines
    )


def _synced_s(measurement: Measurement) -> float:
    """Return S_sync in seconds; S0 if it was not measured."""
    return (measurement.step_synced_s or measurement.step_s).median


def _work_explains(measurement: Measurement) -> bool:
    """Return whether the loop's own work explains at least half of E."""
    return quantities.host_s(measurement) >= 0.5 * quantities.excess_s(measurement)


def judge_host_bound(measurement: Measurement) -> Verdict | None:
    """Find a stalling loop whose own work keeps the host from running ahead of the device."""
    if measurement.device.shares_host_cores:
        return None
    # The host's work costs nothing as long as the host runs ahead of the device.
    busy_s = quantities.host_s(measurement) + measurement.wait_s.p50
    runs_ahead = busy_s <= (1 + EPSILON) * quantities.own_step_s(measurement)
    if runs_ahead or not _work_explains(measurement):
        return None
    return _make_host_bound(measurement)


def _make_host_bound(measurement: Measurement) -> Verdict:
    return Verdict(
        VerdictKind.HOST_BOUND,
        f"the loop's own work takes {format_seconds(quantities.host_s(measurement))} a step"
        f"{name_worst_line(measurement)}, beside a step of "
        f"{format_seconds(quantities.own_step_s(measurement))}",
        _describe_work(measurement),
        "do it every n steps, in another thread or process, or not at all",
    )
