"""The harness's own cost, in the run that it measures."""

from netpipe.results.measurement import Measurement
from netpipe.results.units import format_percent, format_seconds

_STEP_S = 0.020  # the shortest step whose figures the harness vouches for
_MOST = 0.01


def test_the_instruments_cost_little(netpipe_measurement: Measurement) -> None:
    """What the harness adds to a bare loop is less than 1% of a step of 20 ms."""
    fraction = netpipe_measurement.overhead_fraction
    assert fraction is not None
    overhead_s = fraction * netpipe_measurement.step_s.median
    assert overhead_s < _MOST * _STEP_S, (
        f"the instruments add {format_seconds(overhead_s)} to each step, "
        f"{format_percent(fraction)} of this one"
    )
