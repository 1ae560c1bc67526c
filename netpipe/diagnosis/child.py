"""What runs inside a session's process: a loader is looked into, one result is written."""

import argparse
from typing import Any

KIND = "diagnose"


def main() -> None:
    """Run the session that this process was started for."""
    from netpipe.harness.child import answer
    from netpipe.harness.session import request_here

    parser = argparse.ArgumentParser()
    parser.add_argument("--loader", required=True)
    parser.add_argument("--step")
    parser.add_argument("--step-s", type=float)
    arguments = parser.parse_args()
    request = request_here()
    if request is None:
        parser.error("this module is started by netpipe, not by hand")

    def found() -> dict[str, Any]:
        from netpipe.diagnosis.finding_out import FindingOut
        from netpipe.grain_workers import let_grain_start_workers
        from netpipe.harness.clock import MonotonicClock
        from netpipe.harness.host import this_host
        from netpipe.harness.targets import resolve
        from netpipe.harness.watchdog import Watchdog

        let_grain_start_workers()
        loader, cores = resolve(arguments.loader), this_host().cores
        with Watchdog(request) as watch:
            looking = FindingOut(
                loader,
                arguments.loader,
                arguments.step_s,
                cores,
                request.budget_s,
                MonotonicClock(),
                watch,
            )
            findings = looking.findings().to_document()
        flops = getattr(resolve(arguments.step), "flops_per_step", None) if arguments.step else None
        return {KIND: {"findings": findings, "flops_per_step": flops}}

    answer(request, found)


if __name__ == "__main__":
    main()
