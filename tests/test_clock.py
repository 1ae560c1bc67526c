"""The clocks."""

from netpipe.clock import Clock, RecordedClock


def test_the_machines_clock_goes_on() -> None:
    """The system clock advances by at least the duration of a sleep."""
    clock = Clock()
    started = clock()
    clock.sleep(0.01)
    assert clock() - started >= 0.01


def test_a_recorded_clock_moves_only_when_told() -> None:
    """The clock moves only by the recorded durations."""
    clock = RecordedClock()
    assert clock() == clock() == 0.0
    clock.advance(0.25)
    clock.advance(0.5)
    assert clock() == 0.75


def test_a_recorded_clock_has_a_name_to_print() -> None:
    """A timing tool prints the name of its timer."""
    assert RecordedClock().__name__ == "netpipe.session"
