"""A session waits for orders."""

from typing import Any, cast

from netpipe.jobs.heartbeat import Watch
from netpipe.jobs.orders import read_orders


class _Channel:
    """A connection on which orders come late, and which then ends."""

    def __init__(self, *orders: Any) -> None:
        self._orders = list(orders)

    def poll(self, timeout: float) -> bool:
        """Return whether there is an order, or the end."""
        assert timeout > 0
        return self._orders.pop(0) is not None if self._orders[:1] == [None] else True

    def recv(self) -> Any:
        """Return the next order."""
        if not self._orders:
            raise EOFError
        return self._orders.pop(0)


class _Counting(Watch):
    def __init__(self) -> None:
        self.begun = 0

    def begin_rounds(self, budget_s: float = 0.0) -> None:  # noqa: ARG002
        """Count the restarts."""
        self.begun += 1


def test_a_side_waits_for_the_other_one_as_long_as_it_takes() -> None:
    """A side's limits restart at every poll: the other side may compile a model for minutes."""
    watch = _Counting()
    channel = cast(Any, _Channel(None, None, (3,), None, (4,)))
    assert list(read_orders(channel, watch)) == [(3,), (4,)]
    assert watch.begun == 6
