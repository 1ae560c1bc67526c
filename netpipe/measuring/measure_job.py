"""The job of a session that measures."""

from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from netpipe.clock import Clock
from netpipe.device.detection import local_device
from netpipe.device.emulated_names import parse_accelerator
from netpipe.errors import MisuseError
from netpipe.jobs.request import write_result
from netpipe.jobs.targets import Factories
from netpipe.jobs.watchdog import Watchdog
from netpipe.measuring.measure_request import MeasureRequest
from netpipe.measuring.protocol import DeviceOf, measure
from netpipe.measuring.training.emulated_step import EmulatedStep
from netpipe.measuring.training.profiler_trace import trace_file
from netpipe.results.measurement import Device, Finding
from netpipe.verdict.decision import is_clearly_healthy


def measure_factories(
    request: MeasureRequest, factories: Factories, closing: ExitStack
) -> dict[str, Any]:
    """Measure the loader and step of `factories`; return the document of the result.

    `closing` closes the loaders once the result is written.

    Raises:
        MisuseError: A factory returns something unsuitable.
    """
    device_of, subject = device_and_subject(request, factories)
    trace = partial(trace_file, Path(request.trace), request.trace_name) if request.trace else None

    def report(left: Finding) -> None:
        complete = replace(found, findings=(*found.findings, left))
        write_result(request, {"measurement": complete.to_document()})

    with Watchdog(request) as watch:
        clock, budget_s = Clock(), request.budget_s
        is_decided = is_clearly_healthy if request.stopping_rule == "clear" else None
        measured = measure(
            subject, device_of, budget_s, clock, closing, watch, trace, is_decided, report,
            halves_on_shared_cores=request.stopping_rule == "compared",
        )  # fmt: skip
        for found in measured:
            # If the session crashes later, this result counts.
            document = {"measurement": found.to_document()}
            write_result(request, document, is_whole=False)
    return document


def device_and_subject(request: MeasureRequest, factories: Factories) -> tuple[DeviceOf, Factories]:
    """Return a function that describes the step's devices, and the factories to measure.

    Raises:
        MisuseError: A step is missing, and the device is not emulated.
    """
    emulated = parse_accelerator(request.accelerator)
    if request.flops_per_step is not None:
        factories = replace(factories, flops_per_step=request.flops_per_step)
    if emulated is None:
        if factories.step is None:
            raise MisuseError(
                "a step must be given, unless the accelerator is emulated; found none"
            )
        return local_device, factories
    step_s, kind = emulated.derive_step_s(factories.flops, request.mfu)
    step = EmulatedStep(step_s, factories.step, emulated.copy_bytes_per_s)
    device = Device(emulated.key, kind, "emulated", emulated.count)
    mfu = request.mfu if emulated.peak_flops else None
    subject = replace(factories, step=lambda: (step.initial_state(), step), assumed_mfu=mfu)
    return lambda _: device, subject
