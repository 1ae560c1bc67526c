"""The session's process: one run, one result.

Imports happen where they are needed: the workers of a loader import this module again, as they
import the script of any training, and would spend memory and the first batch's time on them.
"""

import argparse
import json
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from netpipe.jobs.request import SessionRequest


def main() -> None:
    """Run the session that this process was started for."""
    from netpipe.jobs.child import require_request, run_job
    from netpipe.jobs.request import SessionRequest

    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--target")
    parser.add_argument("--arguments", type=json.loads, default=[])
    parser.add_argument("--workers", type=int)
    parser.add_argument("--same-batches", type=int, default=0)
    arguments = parser.parse_args()
    request = require_request(parser, SessionRequest)

    run_job(request, partial(_measure, arguments, request))


def _measure(
    arguments: argparse.Namespace, request: "SessionRequest", closing: ExitStack
) -> dict[str, Any]:
    from dataclasses import asdict

    from netpipe.clock import MonotonicClock
    from netpipe.grain_access.worker_start import let_grain_start_workers
    from netpipe.jobs.child import open_channel
    from netpipe.jobs.watchdog import Watchdog
    from netpipe.throughput.run import run, run_in_turns

    let_grain_start_workers()
    with Watchdog(request) as watch:
        loader, clock = _loader(arguments), MonotonicClock()
        if request.channel >= 0:
            with open_channel(request) as channel:
                run_in_turns(
                    loader, channel, clock, closing, watch,
                    arguments.seconds, arguments.same_batches,
                )  # fmt: skip
            return {request.kind: {}}
        tally = run(loader, arguments.seconds, clock, closing, watch)
    return {request.kind: asdict(tally)}


def _loader(arguments: argparse.Namespace) -> Callable[[], Any]:
    from netpipe.jobs.targets import resolve

    loader = resolve(arguments.target)
    if arguments.arguments:
        loader = partial(loader, *arguments.arguments)
    if arguments.workers is None:
        return loader
    from netpipe.grain_access.loader_variants import choose_workers

    return choose_workers(loader, arguments.workers, arguments.target)


if __name__ == "__main__":
    main()
