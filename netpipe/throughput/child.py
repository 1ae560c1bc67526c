"""What runs inside a session's process: one run, one result.

Nothing is imported before it is needed: the workers of a loader import this module again, as they
import the script of any training, and would spend memory and the first batch's time on it.
"""

import argparse
import json
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any


def main() -> None:
    """Run the session that this process was started for."""
    from netpipe.harness.child import answer
    from netpipe.harness.session import request_here

    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--target")
    parser.add_argument("--data")
    parser.add_argument("--pipeline", type=json.loads)
    arguments = parser.parse_args()
    request = request_here()
    if request is None:
        parser.error("this module is started by netpipe, not by hand")

    def found(closing: ExitStack) -> dict[str, Any]:
        from dataclasses import asdict

        from netpipe.grain_workers import let_grain_start_workers
        from netpipe.harness.clock import MonotonicClock
        from netpipe.harness.watchdog import Watchdog
        from netpipe.throughput.run import run

        let_grain_start_workers()
        with Watchdog(request) as watch:
            tally = run(_loader(arguments), arguments.seconds, MonotonicClock(), closing, watch)
        return {request.kind: asdict(tally)}

    answer(request, found)


def _loader(arguments: argparse.Namespace) -> Callable[[], Any]:
    if arguments.target:
        from netpipe.harness.targets import resolve

        return resolve(arguments.target)
    from pathlib import Path

    from netpipe.config import PipelineConfig
    from netpipe.data.pipeline import build

    data, pipeline = Path(arguments.data), PipelineConfig(**arguments.pipeline)
    return lambda: build(data, pipeline)


if __name__ == "__main__":
    main()
