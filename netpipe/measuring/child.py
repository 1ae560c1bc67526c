"""The job of a session that measures; `python -m netpipe.measuring.child` runs it on targets."""

import argparse
import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from netpipe.clock import MonotonicClock
from netpipe.device.emulated_names import EmulatedAccelerator, Flops, parse_accelerator
from netpipe.errors import MisuseError
from netpipe.measuring.request import MeasureRequest
from netpipe.results.measurement import Device
from netpipe.session.child import announce_import, require_request, run_job
from netpipe.session.code_origin import check_origin
from netpipe.session.result_files import write_result
from netpipe.session.targets import resolve
from netpipe.session.watchdog import Watchdog


@dataclass(frozen=True)
class Factories:
    """What the user provides.

    Attributes:
        loader: Makes the loader.
        step: Makes `(state, step)`; optional with an emulated accelerator.
        loop: The trainer's own loop; by default the harness's.
        synthetic: Makes the batches on which the step is timed alone; by default the loader's.
        fingerprint: Names the data and the configuration; only equal ones are compared.
        flops_per_step: FLOPs of a step, for an emulated accelerator of a known peak; by default
            the step factory's attribute of this name.
    """

    loader: Callable[[], Any]
    step: Callable[[], Any] | None = None
    loop: Callable[..., object] | None = None
    synthetic: Callable[[], Any] | None = None
    fingerprint: str = ""
    flops_per_step: Flops = None


def serve(request: MeasureRequest, factories: Factories) -> None:
    """Measure what the factories make and write the result, which may be an error."""
    run_job(request, lambda closing: measure_factories(request, factories, closing))


def measure_factories(
    request: MeasureRequest, factories: Factories, closing: ExitStack
) -> dict[str, Any]:
    """Measure what the factories make; return the document of the result.

    Args:
        request: What the session was asked for.
        factories: What the user provides.
        closing: Closes the loaders once the result is written.

    Raises:
        MisuseError: The code comes from elsewhere, or a factory returns something unsuitable.
    """
    # A refusal must not take minutes, so the check comes first. It is repeated after the
    # measurement, which has imported more.
    check_origin(request.code_from, request.not_from)
    from netpipe.device.detection import measured_versions
    from netpipe.device.host import this_host
    from netpipe.grain_workers import let_grain_start_workers
    from netpipe.measuring.profiler_trace import TraceTarget
    from netpipe.measuring.protocol import Environment, measure
    from netpipe.measuring.rounds import Subject
    from netpipe.measuring.training_loop import late_reading_loop

    let_grain_start_workers()
    device_of, step = _device_and_step(request, factories)
    place = Environment(device_of, this_host(), measured_versions())
    trace = TraceTarget(Path(request.trace), request.trace_name) if request.trace else None
    with Watchdog(request) as watch:
        subject = Subject(
            factories.loader,
            step,
            factories.loop or late_reading_loop,
            factories.synthetic,
            factories.fingerprint,
        )
        clock = MonotonicClock()
        for found in measure(subject, place, request.budget_s, clock, closing, watch, trace):
            check_origin(request.code_from, request.not_from)
            document = {"measurement": found.to_document()}
            write_result(request, document, is_whole=False)
    return document


def _device_and_step(
    request: MeasureRequest, factories: Factories
) -> tuple[Callable[[int], Device], Callable[[], Any]]:
    emulated = parse_accelerator(request.accelerator)
    if emulated is not None:
        return _emulated_device_and_step(emulated, request, factories)
    if factories.step is None:
        raise MisuseError("a step must be given, unless the accelerator is emulated; found none")
    from netpipe.device.detection import local_device

    return local_device, factories.step


def _emulated_device_and_step(
    emulated: EmulatedAccelerator, request: MeasureRequest, factories: Factories
) -> tuple[Callable[[int], Device], Callable[[], Any]]:
    from netpipe.measuring.emulated_step import EmulatedStep

    flops: Flops = next(
        (
            given
            for given in (request.flops_per_step, factories.flops_per_step)
            if given is not None
        ),
        getattr(factories.step, "flops_per_step", None),
    )
    step_s, kind = emulated.derive_step_s(flops, request.mfu)
    step = EmulatedStep(step_s, factories.step, emulated.copy_bytes_per_s)
    return (
        lambda _: Device(emulated.key, kind, "emulated", emulated.count),
        lambda: (step.initial_state(), step),
    )


def child_command(loader: str, step: str | None, loop: str | None) -> list[str]:
    """Return the command of a session that measures targets."""
    command = [sys.executable, "-P", "-m", "netpipe.measuring.child", "--loader", loader]
    command += ["--step", step] if step else []
    return command + (["--loop", loop] if loop else [])


def main() -> None:
    """Run this process's session on the targets that its command names."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--loader", required=True)
    parser.add_argument("--step")
    parser.add_argument("--loop")
    arguments = parser.parse_args()
    request = require_request(parser, MeasureRequest)

    def measure(closing: ExitStack) -> dict[str, Any]:
        announce_import(request, arguments.loader)
        factories = Factories(
            loader=resolve(arguments.loader),
            step=resolve(arguments.step) if arguments.step else None,
            loop=resolve(arguments.loop) if arguments.loop else None,
        )
        return measure_factories(request, factories, closing)

    run_job(request, measure)


if __name__ == "__main__":
    main()
