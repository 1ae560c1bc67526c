"""The pipe over which a parent sends orders to a session that waits for its turn."""

import os
from collections.abc import Iterator
from multiprocessing.connection import Connection
from typing import Any, Final

from netpipe.jobs.heartbeat import Watch
from netpipe.jobs.request import SessionRequest

_POLL_S: Final = 1.0


def open_channel(request: SessionRequest) -> Connection:
    """Open the connection to the parent; the workers of a loader do not inherit it."""
    os.set_inheritable(request.channel, False)
    return Connection(request.channel)


def read_orders(channel: Connection, watch: Watch) -> Iterator[Any]:
    """Yield the parent's orders until the parent is gone."""
    while True:
        watch.begin_rounds()
        # Poll, so that the time limit restarts while the other side starts, possibly for minutes.
        if channel.poll(_POLL_S):
            try:
                yield channel.recv()
            except EOFError:
                return
