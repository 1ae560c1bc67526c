"""The job of a session that counts work."""

from contextlib import ExitStack
from typing import Any

from netpipe.device.detection import installed_versions
from netpipe.device.emulated_names import parse_accelerator
from netpipe.jobs.targets import Factories
from netpipe.jobs.watchdog import Watchdog
from netpipe.results.work_profile import WorkProfile
from netpipe.work_counts.loader_work import count_loader_work
from netpipe.work_counts.reproducible_counts import WorkRequest
from netpipe.work_counts.step_work import count_step_work, describe_backend


def count_factories(request: WorkRequest, factories: Factories, _: ExitStack) -> dict[str, Any]:
    """Count the work of a loader and a step; raise a MisuseError if one of them is unsuitable."""
    with Watchdog(request, extra_s=request.start_limit_s) as watch:
        work = count_loader_work(factories.loader, request.batches, watch)
        backend, not_counted = "", dict(work.not_counted)
        counts = {
            kind: {part: total / work.batches for part, total in parts.items()}
            for kind, parts in work.totals.items()
        }
        # On a machine without the accelerator that is emulated, the step may take minutes.
        if factories.step is not None and parse_accelerator(request.accelerator) is None:
            watch.enter_phase("analysing the step")
            step, step_not_counted = count_step_work(
                factories.step, (2 * work.step_batches)[-2:], factories.synthetic, factories.flops
            )
            counts |= {kind: {"": amount} for kind, amount in step.items()}
            not_counted |= step_not_counted
            backend = describe_backend()
    callers: dict[str, dict[str, float]] = {}
    for (function, caller), calls in work.calls.items():
        callers.setdefault(function, {})[caller] = calls / work.batches
    profile = WorkProfile(
        versions=installed_versions(), batches=work.batches, fingerprint=factories.fingerprint,
        step_backend=backend, counts=counts, callers=callers, arrays=work.arrays,
        contents=tuple(work.contents), epoch_batches=work.epoch_batches,
        not_counted=not_counted, tasks_beside=work.tasks_beside,
        cpu_s_per_batch=work.cpu_s_per_batch,
    )  # fmt: skip
    return {"work": profile.to_document()}
