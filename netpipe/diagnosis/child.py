"""The process of a session that investigates one loader and writes one result."""

import argparse
import json
from contextlib import ExitStack
from typing import Any

from netpipe.device.emulated_names import Flops, check_flops

KIND = "diagnose"


def main() -> None:
    """Run the session that this process was started for."""
    from netpipe.session.child import announce_import, require_request, run_job
    from netpipe.session.request import SessionRequest

    parser = argparse.ArgumentParser()
    parser.add_argument("--loader", required=True)
    parser.add_argument("--step")
    parser.add_argument("--step-s", type=float)
    parser.add_argument("--load-s", type=json.loads)
    parser.add_argument("--budget-s", type=float, required=True)
    arguments = parser.parse_args()
    request = require_request(parser, SessionRequest)

    def investigate(_: ExitStack) -> dict[str, Any]:
        from netpipe.clock import MonotonicClock
        from netpipe.device.host import this_host
        from netpipe.diagnosis.investigation import Investigation
        from netpipe.grain_workers import let_grain_start_workers
        from netpipe.results.measurement import Interval
        from netpipe.session.request import START_UP_S
        from netpipe.session.targets import resolve
        from netpipe.session.watchdog import Watchdog

        let_grain_start_workers()
        announce_import(request, arguments.loader)
        loader = resolve(arguments.loader)
        # To the watchdog the whole session is start-up; the investigation keeps its own budget.
        with Watchdog(request, start_up_s=START_UP_S + request.budget_s) as watch:
            investigation = Investigation(
                loader=loader,
                target=arguments.loader,
                step_s=arguments.step_s,
                cores=this_host().cores,
                budget_s=arguments.budget_s,
                clock=MonotonicClock(),
                watch=watch,
                load_s=Interval(*arguments.load_s) if arguments.load_s else None,
            )
            findings = investigation.run().to_document()
        step = resolve(arguments.step) if arguments.step else None
        flops = count_flops(getattr(step, "flops_per_step", None))
        return {KIND: {"findings": findings, "flops_per_step": flops}}

    run_job(request, investigate)


def count_flops(flops: Flops) -> float | None:
    """Return the FLOPs per step from the step factory's attribute: a number, a callable or None."""
    counted = flops() if callable(flops) else flops
    return None if counted is None else float(check_flops(counted))


if __name__ == "__main__":
    main()
