"""The job of a session that counts work; `python -m netpipe.work_counts.child` runs it on targets.

Loader workers import this module again, so its top level imports nothing heavy.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from netpipe.measuring.request import Factories
    from netpipe.work_counts.counting import WorkRequest


def count_factories(request: "WorkRequest", factories: "Factories") -> dict[str, Any]:
    """Count the work of what factories make; raise a MisuseError if that is unsuitable."""
    from netpipe.device.detection import measured_versions
    from netpipe.device.emulated_names import parse_accelerator
    from netpipe.grain_access.worker_start import let_grain_start_workers
    from netpipe.jobs.code_origin import check_origin
    from netpipe.jobs.watchdog import Watchdog
    from netpipe.results.work_profile import WorkProfile
    from netpipe.work_counts.loader_work import count_loader_work

    check_origin(request.code_from, request.not_from)
    let_grain_start_workers()
    with Watchdog(request) as watch:
        work = count_loader_work(factories.loader, request.batches, watch)
        backend, not_counted = "", dict(work.not_counted)
        counts = {
            kind: {part: total / work.batches for part, total in parts.items()}
            for kind, parts in work.totals.items()
        }
        # In place of an accelerator that is only emulated, the step may take minutes.
        if factories.step is not None and parse_accelerator(request.accelerator) is None:
            from netpipe.work_counts.step_work import count_step_work, describe_backend

            watch.enter_phase("analysing the step")
            step, step_not_counted = count_step_work(
                factories.step, (2 * work.step_batches)[-2:], factories.synthetic, factories.flops
            )
            counts |= {kind: {"": amount} for kind, amount in step.items()}
            not_counted |= step_not_counted
            backend = describe_backend()
    check_origin(request.code_from, request.not_from)
    callers: dict[str, dict[str, float]] = {}
    for (function, caller), calls in work.calls.items():
        callers.setdefault(function, {})[caller] = calls / work.batches
    profile = WorkProfile(
        versions=measured_versions(), batches=work.batches, fingerprint=factories.fingerprint,
        step_backend=backend, counts=counts, callers=callers, arrays=work.arrays,
        not_counted=not_counted,
    )  # fmt: skip
    return {"work": profile.to_document()}


if __name__ == "__main__":
    from netpipe.measuring.targets import run_on_targets
    from netpipe.work_counts.counting import WorkRequest

    run_on_targets(WorkRequest, lambda request, factories, _: count_factories(request, factories))
