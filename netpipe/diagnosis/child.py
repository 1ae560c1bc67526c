"""The process of a diagnosis.

Loader workers import this again, so the top level imports nothing heavy.
"""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from netpipe.device.emulated_names import count_flops
from netpipe.diagnosis.request import InvestigationRequest
from netpipe.jobs.request import START_UP_S

if TYPE_CHECKING:
    from netpipe.measuring.request import Factories


def investigate(request: InvestigationRequest, factories: "Factories") -> dict[str, Any]:
    """Investigate a loader; return the document of the result."""
    from netpipe.clock import MonotonicClock
    from netpipe.device.host import this_host
    from netpipe.diagnosis.start_up import observe_start
    from netpipe.grain_access.worker_start import let_grain_start_workers
    from netpipe.jobs.watchdog import Watchdog

    let_grain_start_workers()
    # To the watchdog the whole session is start-up; the investigation keeps its own budget.
    with Watchdog(request, start_up_s=START_UP_S + request.budget_s) as watch:
        start_up = observe_start(factories, watch)
        # It imports grain, which is part of the start if loader() imports it.
        from netpipe.diagnosis.investigation import Investigation

        cores, clock = this_host().cores, MonotonicClock()
        investigation = Investigation(factories.loader, request, cores, clock, watch)
        findings = replace(investigation.run(), start_up=start_up).to_document()
    flops = count_flops(factories.flops)
    return {request.kind: {"findings": findings, "flops_per_step": flops}}


def main() -> None:
    """Run this process's session on the targets that its command names."""
    from netpipe.measuring.targets import run_on_targets

    run_on_targets(
        InvestigationRequest, lambda request, factories, _: investigate(request, factories)
    )


if __name__ == "__main__":
    main()
