"""The job of an investigation session."""

from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from netpipe.clock import Clock
from netpipe.device.host import this_host
from netpipe.diagnosis.diagnose_request import InvestigationRequest
from netpipe.diagnosis.experiments.start_up import observe_start
from netpipe.jobs.targets import Factories
from netpipe.jobs.watchdog import Watchdog


def investigate(
    request: InvestigationRequest, factories: Factories, _: ExitStack
) -> dict[str, Any]:
    """Investigate a loader; return its findings as JSON values."""
    # The watchdog treats the whole session as start-up; the investigation keeps its own budget.
    with Watchdog(request, extra_s=request.budget_s) as watch:
        start_up = observe_start(factories, watch)
        # Imported late: this imports grain, which is part of the start if loader() imports it.
        from netpipe.diagnosis.investigation import Investigation

        cores, clock = this_host().cores, Clock()
        investigation = Investigation(factories.loader, request, cores, clock, watch)
        findings = replace(investigation.run(), start_up=start_up).to_document()
    return {request.kind: findings}
