"""The job of a session that measures; `python -m netpipe.measuring.child` runs it on targets."""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from netpipe.clock import MonotonicClock
from netpipe.device.emulated_names import parse_accelerator
from netpipe.errors import MisuseError
from netpipe.jobs.child import run_job
from netpipe.jobs.code_origin import check_origin
from netpipe.jobs.result_files import write_result
from netpipe.jobs.watchdog import Watchdog
from netpipe.measuring.request import Factories, MeasureRequest
from netpipe.measuring.targets import run_on_targets, targets_command
from netpipe.results.measurement import Device, Finding


def serve(request: MeasureRequest, factories: Factories) -> None:
    """Measure what the factories make and write the result, which may be an error."""
    run_job(request, lambda closing: measure_factories(request, factories, closing))


def measure_factories(
    request: MeasureRequest, factories: Factories, closing: ExitStack
) -> dict[str, Any]:
    """Measure what the factories make; return the document of the result.

    The loaders are closed by `closing`, once the result is written.

    Raises:
        MisuseError: The code comes from elsewhere, or a factory returns something unsuitable.
    """
    # A refusal must not take minutes, so the check comes first. It is repeated after the
    # measurement, which has imported more.
    check_origin(request.code_from, request.not_from)
    from netpipe.grain_access.worker_start import let_grain_start_workers
    from netpipe.measuring.protocol import measure
    from netpipe.measuring.training.profiler_trace import trace_file

    let_grain_start_workers()
    device_of, subject = device_and_subject(request, factories)
    trace = partial(trace_file, Path(request.trace), request.trace_name) if request.trace else None

    def report(left: Finding) -> None:
        complete = replace(found, findings=(*found.findings, left))
        write_result(request, {"measurement": complete.to_document()})

    with Watchdog(request) as watch:
        clock, budget_s = MonotonicClock(), request.budget_s
        is_decided = resolve_name(request.decided_by) if request.decided_by else None
        measured = measure(
            subject, device_of, budget_s, clock, closing, watch, trace, is_decided, report
        )
        for found in measured:
            check_origin(request.code_from, request.not_from)
            document = {"measurement": found.to_document()}
            write_result(request, document, is_whole=False)
    return document


def device_and_subject(
    request: MeasureRequest, factories: Factories
) -> tuple[Callable[[int], Device], Factories]:
    """Return the device for the number of devices that the step uses, and what runs on it.

    Raises:
        MisuseError: There is no step, and no emulated device that needs none.
    """
    emulated = parse_accelerator(request.accelerator)
    if request.flops_per_step is not None:
        factories = replace(factories, flops_per_step=request.flops_per_step)
    if emulated is None:
        if factories.step is None:
            raise MisuseError(
                "a step must be given, unless the accelerator is emulated; found none"
            )
        from netpipe.device.detection import local_device

        return local_device, factories
    from netpipe.measuring.training.emulated_step import EmulatedStep

    step_s, kind = emulated.derive_step_s(factories.flops, request.mfu)
    step = EmulatedStep(step_s, factories.step, emulated.copy_bytes_per_s)
    device = Device(emulated.key, kind, "emulated", emulated.count)
    mfu = request.mfu if emulated.peak_flops else None
    subject = replace(factories, step=lambda: (step.initial_state(), step), assumed_mfu=mfu)
    return lambda _: device, subject


def child_command(loader: str, step: str | None, loop: str | None) -> list[str]:
    """Return the command of a session that measures targets."""
    return targets_command("netpipe.measuring.child", loader, step, loop)


def main() -> None:
    """Run this process's session on the targets that its command names."""
    run_on_targets(MeasureRequest, measure_factories)


if __name__ == "__main__":
    main()
