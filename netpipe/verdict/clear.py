"""Whether a verdict is so clear that more rounds would not change it. Pure."""

from netpipe.results.measurement import Measurement
from netpipe.verdict import quantities
from netpipe.verdict.decision import judge
from netpipe.verdict.host_causes import MIN_SYNC_PROBE
from netpipe.verdict.kinds import VerdictKind

# Load time over step time: half of what would be at risk, up to the end of the interval.
_MAX_LOAD_OVER_STEP = 0.4
# Whatever makes every 28th step late shows three times.
_MIN_STEPS = 84


def is_clearly_healthy(measurement: Measurement) -> bool:
    """Return whether nothing that verdicts are decided from comes near a limit.

    Only health is ever clear: of a fault the size is of interest too.
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
