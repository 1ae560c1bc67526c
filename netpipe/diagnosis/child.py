"""What runs inside a session's process: a loader is looked into, one result is written."""

import argparse
from contextlib import ExitStack
from typing import Any

from netpipe.harness.emulation import Flops, checked_flops

KIND = "diagnose"


def main() -> None:
    """Run the session that this process was started for."""
    from netpipe.harness.child import answer, tell_of_import
    from netpipe.harness.session import request_here

    parser = argparse.ArgumentParser()
    parser.add_argument("--loader", required=True)
    parser.add_argument("--step")
    parser.add_argument("--step-s", type=float)
    parser.add_argument("--budget-s", type=float, required=True)
    arguments = parser.parse_args()
    request = request_here()
    if request is None:
        parser.error("this module is started by netpipe, not by hand")

    def found(_: ExitStack) -> dict[str, Any]:
        from netpipe.diagnosis.finding_out import FindingOut
        from netpipe.grain_workers import let_grain_start_workers
        from netpipe.harness.clock import MonotonicClock
        from netpipe.harness.host import this_host
        from netpipe.harness.session import START_UP_S
        from netpipe.harness.targets import resolve
        from netpipe.harness.watchdog import Watchdog

        let_grain_start_workers()
        tell_of_import(request, arguments.loader)
        loader, cores = resolve(arguments.loader), this_host().cores
        limit_s = START_UP_S + request.budget_s  # of which the diagnosis itself holds the second
        with Watchdog(request, start_up_s=limit_s) as watch:
            looking = FindingOut(
                loader,
                arguments.loader,
                arguments.step_s,
                cores,
                arguments.budget_s,
                MonotonicClock(),
                watch,
            )
            findings = looking.findings().to_document()
        step = resolve(arguments.step) if arguments.step else None
        flops = counted_flops(getattr(step, "flops_per_step", None))
        return {KIND: {"findings": findings, "flops_per_step": flops}}

    answer(request, found)


def counted_flops(flops: Flops) -> float | None:
    """Return the FLOPs of a step that its factory knows; they may have to be counted.

    Raises:
        MisuseError: They are not above 0, or not finite.
    """
    counted = flops() if callable(flops) else flops
    return None if counted is None else float(checked_flops(counted))


if __name__ == "__main__":
    main()
