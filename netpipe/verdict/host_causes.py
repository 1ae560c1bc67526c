"""What the trainer's own thread does that makes training wait: it waits itself, or works too long.

The letters are explained in `quantities`.
"""

from netpipe.results.measurement import Measurement
from netpipe.results.units import (
    format_percent,
    format_ratio_interval,
    format_seconds,
    format_seconds_interval,
)
from netpipe.verdict import quantities
from netpipe.verdict.kinds import Verdict
from netpipe.verdict.quantities import EPSILON

SEEN_PROBE = 0.02
_VOID_PROBE = 0.2
_WAITING = 0.15  # of the looks at a line that waits find it working
_LEAST_SLOWED = 0.2  # of a step; less work is not slowed to a whole one by some threads
_LEAST_WAITS = 0.25  # of the loop's time, where it is a wait that lets steps be done


def forced_sync(measurement: Measurement) -> Verdict | None:
    """Tell a loop that waits for the device, and what only looks like it."""
    stalls, exposed = quantities.stalls_beyond_both(measurement), _exposes_too_much(measurement)
    if not (stalls or exposed):
        return None
    if measurement.sync_probe_idle_fraction > _VOID_PROBE:
        return _sync_in_the_step(measurement) if stalls else None
    probe = quantities.excess_probe(measurement)
    if probe <= SEEN_PROBE or not (exposed or _sync_explains_stall(measurement, probe)):
        return None
    # A step is also done at the next request when the loop takes longer than it with other things.
    if _host_outlasts_step(measurement) or _leaves_no_wait(measurement, probe):
        return _host_bound_verdict(measurement)
    if _computes_instead(measurement):
        return _slowed_work(measurement)
    return _forced_sync_verdict(measurement, probe)


def _exposes_too_much(measurement: Measurement) -> bool:
    """Return whether the device surely idles for too long between a sync and the next step.

    The loop's own times say so, also where the time of a step alone spreads too far for R to.
    """
    exposed = quantities.exposed_fraction(measurement)
    return exposed is not None and exposed.low > EPSILON


def _sync_explains_stall(measurement: Measurement, probe: float) -> bool:
    # After a sync the device idles through what would have run beside it: the shorter of loading
    # and computing, the loop's own work, and waking up to dispatch the next step.
    waking_s = max(0.0, _synced_s(measurement) - measurement.step_s.median)
    hidden_s = quantities.smaller_s(measurement) + quantities.host_s(measurement) + waking_s
    return probe * hidden_s >= 0.5 * quantities.excess_s(measurement)


def _leaves_no_wait(measurement: Measurement, probe: float) -> bool:
    """Return whether loading and the loop's own work explain R without any wait for the device."""
    explained_s = measurement.wait_s.p50 + quantities.host_s(measurement)
    left_s = measurement.train_s_per_step.median - explained_s
    return _work_explains(measurement) and left_s <= 0.5 * probe * _synced_s(measurement)


def _computes_instead(measurement: Measurement) -> bool:
    """Return whether the loop, where it was looked at, does not wait but work, and slowly.

    Slowly for threads of the same process that load: workers do not hold Python's lock.
    """
    host_s, step_s = quantities.host_s(measurement), measurement.step_s.median
    beside_loading_s = measurement.train_s_per_step.median - measurement.wait_s.p50
    slowed = beside_loading_s > (1 + EPSILON) * max(host_s, step_s)
    if measurement.loader_processes or not slowed or host_s < _LEAST_SLOWED * step_s:
        return False
    return bool(measurement.blocking_lines) and _waiting_fraction(measurement) < _LEAST_WAITS


def _waiting_fraction(measurement: Measurement) -> float:
    """Return the share of the loop's time at lines where it waits."""
    lines = measurement.blocking_lines
    return sum(one.fraction for one in lines if one.working_fraction < _WAITING)


def _slowed_work(measurement: Measurement) -> Verdict:
    return Verdict(
        "contention",
        f"contention: the loop's own work{where(measurement)} takes "
        f"{format_seconds(quantities.host_s(measurement))} a step alone, and longer than the "
        f"step beside "
        "the loader",
        (
            *quantities.evidence(measurement),
            f"H = {format_seconds_interval(measurement.host_s_per_step)} a step",
            *_lines(measurement),
        ),
        "load in worker processes (mp_prefetch): threads share Python's lock with the loop",
    )


def _sync_in_the_step(measurement: Measurement) -> Verdict | None:
    """Tell a step that waits for itself from one that is too short for the probe."""
    if (
        _waiting_fraction(measurement) < 0.5
        or not quantities.is_serial(measurement)
        or _work_explains(measurement)
    ):
        return None
    return _forced_sync_verdict(measurement, measurement.sync_probe_fraction)


def _forced_sync_verdict(measurement: Measurement, probe: float) -> Verdict:
    train_s = measurement.train_s_per_step.median
    stalls = quantities.stalls_beyond_both(measurement)
    cost_s = quantities.excess_s(measurement) if stalls else quantities.exposed_s(measurement)
    return Verdict(
        "forced-sync",
        f"forced-sync: the loop waits for the device {probe:.2f} times a step"
        f"{where(measurement)}; a step takes {format_seconds(train_s)} where "
        f"{format_seconds(train_s - cost_s)} would do",
        (
            *quantities.evidence(measurement),
            f"sync probe {probe:.2f} syncs a step",
            describe_exposed(measurement),
            *_lines(measurement),
        ),
        "read metrics a step late, or every n steps: no float(), item(), np.asarray() or "
        "block_until_ready() on what the last step returned",
    )


def describe_exposed(measurement: Measurement) -> str:
    """Return what a sync was seen to cost, as a sentence."""
    fraction = quantities.exposed_fraction(measurement)
    if fraction is None:
        return "what it costs was not measured"
    idle_s = format_seconds(quantities.exposed_s(measurement))
    return f"the device idles {idle_s} a step after a sync, {format_ratio_interval(fraction)} of R"


def where(measurement: Measurement) -> str:
    """Return the line where the loop stands most, as a part of a sentence; empty when unknown."""
    if not measurement.blocking_lines:
        return ""
    worst = measurement.blocking_lines[0]
    return f", at {worst.file}:{worst.line} `{worst.code}`"


def _lines(measurement: Measurement) -> tuple[str, ...]:
    return tuple(
        f"{format_percent(one.fraction)} of the loop's time at {one.file}:{one.line}: {one.code}"
        for one in measurement.blocking_lines
    )


def _host_outlasts_step(measurement: Measurement) -> bool:
    return quantities.host_s(measurement) > _synced_s(measurement)


def _synced_s(measurement: Measurement) -> float:
    """Return S_sync, S0 when it was not measured."""
    return (measurement.step_synced_s or measurement.step_s).median


def _work_explains(measurement: Measurement) -> bool:
    """Return whether the loop's own work holds at least half of what nothing else explains."""
    return quantities.host_s(measurement) >= 0.5 * quantities.excess_s(measurement)


def host_bound(measurement: Measurement) -> Verdict | None:
    """Tell a loop whose own work leaves the host no time to run ahead of the device."""
    if not quantities.stalls_beyond_both(measurement) or measurement.device.shares_host_cores:
        return None
    # The host runs ahead of the device: work that leaves it time for that costs nothing.
    busy_s = quantities.host_s(measurement) + measurement.wait_s.p50
    runs_ahead = busy_s <= (1 + EPSILON) * measurement.step_s.median
    if runs_ahead or not _work_explains(measurement):
        return None
    return _host_bound_verdict(measurement)


def _host_bound_verdict(measurement: Measurement) -> Verdict:
    return Verdict(
        "host-bound",
        f"host-bound: the loop's own work takes {format_seconds(quantities.host_s(measurement))} "
        f"a step{where(measurement)}, beside a step of {format_seconds(measurement.step_s.median)}",
        (
            *quantities.evidence(measurement),
            f"H = {format_seconds_interval(measurement.host_s_per_step)} a step",
            *_lines(measurement),
        ),
        "do it every n steps, in another thread or process, or not at all",
    )
