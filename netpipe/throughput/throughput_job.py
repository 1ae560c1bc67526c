"""The job of a session that measures throughput: one run, or the turns that the parent orders."""

from contextlib import ExitStack
from dataclasses import asdict
from typing import Any

from netpipe.clock import Clock
from netpipe.grain_access.loader_variants import choose_workers
from netpipe.jobs.orders import open_channel
from netpipe.jobs.targets import Factories
from netpipe.jobs.watchdog import Watchdog
from netpipe.throughput.run import run, run_in_turns
from netpipe.throughput.throughput_request import ThroughputRequest


def measure_throughput(
    request: ThroughputRequest, factories: Factories, closing: ExitStack
) -> dict[str, Any]:
    """Measure a loader's steady state; return its counts, or none if the parent orders turns."""
    loader, clock, seconds = factories.loader, Clock(), request.seconds
    with Watchdog(request) as watch:
        if request.workers is not None:
            loader = choose_workers(loader, request.workers, str(request.targets["loader"]))
        if request.channel < 0:
            return {request.kind: asdict(run(loader, seconds, clock, closing, watch))}
        with open_channel(request) as channel:
            run_in_turns(loader, channel, clock, closing, watch, seconds)
    return {request.kind: {}}
