"""Decide whether more rounds could still change a verdict. Pure."""

from netpipe.results.measurement import Measurement
from netpipe.verdict import quantities
from netpipe.verdict.decision import judge
from netpipe.verdict.kinds import VerdictKind
from netpipe.verdict.loop_causes import MIN_SYNC_PROBE

# Limit for the upper end of the interval of L / S0: half of the at-risk limit.
_MAX_LOAD_OVER_STEP = 0.4
# A cause that delays every 28th step occurs three times in this many steps.
_MIN_STEPS = 84


def is_clearly_healthy(measurement: Measurement) -> bool:
    """Return whether a measurement is healthy and all its quantities are far from their limits.

    Only a healthy verdict can be clear: measuring the size of a fault takes more rounds.
    """
    train, epsilon = quantities.train_over_larger(measurement), quantities.EPSILON
    return (
        judge(measurement).kind == VerdictKind.HEALTHY
        and quantities.load_over_step(measurement).high < _MAX_LOAD_OVER_STEP
        and 1 - epsilon < train.low <= train.high < 1 + epsilon
        and quantities.excess_probe(measurement) < MIN_SYNC_PROBE
        and measurement.compilations == 0
        and measurement.distributions is not None
        and measurement.distributions.steps >= _MIN_STEPS
    )
