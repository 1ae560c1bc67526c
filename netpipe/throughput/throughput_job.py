"""The job of a session that measures throughput: one run, or the turns that the parent orders."""

from contextlib import ExitStack
from dataclasses import asdict
from functools import partial
from typing import Any

from netpipe.clock import Clock
from netpipe.grain_access.loader_variants import choose_workers
from netpipe.jobs.orders import open_channel, read_orders
from netpipe.jobs.targets import Factories
from netpipe.jobs.watchdog import Watchdog
from netpipe.throughput.figures import describe_arrays
from netpipe.throughput.run import LoaderRun
from netpipe.throughput.throughput_request import ThroughputRequest


def measure_throughput(
    request: ThroughputRequest, factories: Factories, closing: ExitStack
) -> dict[str, Any]:
    """Measure a loader's steady state; return its counts, or none if the parent orders turns."""
    loader, seconds = factories.loader, request.seconds
    with Watchdog(request) as watch:
        if request.workers is not None:
            loader = choose_workers(loader, request.workers, str(request.targets["loader"]))
        start = partial(LoaderRun, loader, Clock(), closing, watch, seconds)
        if request.channel < 0:
            running = start()
            running.leave_buffered_out(seconds)
            running.count(seconds)
            return {request.kind: asdict(running.tally())}
        with open_channel(request) as channel:
            running = start()
            channel.send(describe_arrays(running.puller.first_batch))
            # The parent orders methods of `LoaderRun` by name.
            for method, *arguments in read_orders(channel, watch):
                channel.send(getattr(running, method)(*arguments) or {})
    return {request.kind: {}}
