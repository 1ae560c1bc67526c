"""The overhead that the harness adds to the run that it measures."""

from netpipe.results.measurement import Measurement
from netpipe.results.units import format_percent, format_seconds

_STEP_S = 0.020  # the shortest supported step
_MAX_FRACTION = 0.01


def test_the_instruments_cost_little(netpipe_measurement: Measurement) -> None:
    """The harness adds less than 1% of a 20 ms step to a bare loop."""
    fraction = netpipe_measurement.overhead_fraction
    assert fraction is not None
    overhead_s = fraction * netpipe_measurement.step_s.median
    assert overhead_s < _MAX_FRACTION * _STEP_S, (
        f"the instruments add {format_seconds(overhead_s)} to each step, "
        f"{format_percent(fraction)} of this one"
    )
