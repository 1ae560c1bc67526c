"""What runs inside a session's process: measure or lint, write one result, end in any case."""

import argparse
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from platform import python_version
from typing import Any, Final

from netpipe.errors import NetpipeError
from netpipe.harness.clock import MonotonicClock
from netpipe.harness.emulation import Emulated, Flops, parse_accelerator
from netpipe.harness.errors import LoaderFailedError, MisuseError
from netpipe.harness.failure import told
from netpipe.harness.measurement import Device
from netpipe.harness.origin import check_origin
from netpipe.harness.progress import Teller
from netpipe.harness.session import (
    SessionRequest,
    error_document,
    gather_sockets,
    is_abandoned,
    leave,
    progress_file,
    request_here,
    write_result,
)
from netpipe.harness.targets import resolve
from netpipe.harness.watchdog import Watchdog

_LOOK_S = 0.2
_PACKAGES: Final = ("netpipe", "grain", "jax", "jaxlib", "numpy")


@dataclass(frozen=True)
class Factories:
    """What the user hands over.

    Attributes:
        loader: Makes the loader.
        step: Makes `(state, step)`; may be left out with an emulated accelerator.
        loop: The trainer's own loop; the harness's when left out.
        synthetic: Makes the batches that the step is timed on alone; the loader's when left out.
        fingerprint: Names the data and the configuration; only like is compared with like.
        flops_per_step: FLOPs of a step, for an emulated accelerator of a known peak; the step
            factory's attribute of this name when left out.
    """

    loader: Callable[[], Any]
    step: Callable[[], Any] | None = None
    loop: Callable[..., object] | None = None
    synthetic: Callable[[], Any] | None = None
    fingerprint: str = ""
    flops_per_step: Flops = None


def serve(request: SessionRequest, factories: Factories) -> None:
    """Do what the session was asked for and write its result; no exception gets out."""
    answer(request, lambda closing: _found(request, factories, closing))


def answer(request: SessionRequest, found: Callable[[ExitStack], dict[str, Any]]) -> None:
    """Write what `found` returns, or how it failed, as the result of the session.

    Args:
        request: What the session was asked for.
        found: Returns a document with one key, that of the result; whatever it raises is told.
            What it leaves to the stack, as closing a loader, is done once the result is written:
            it may take long, or never end.
    """
    gather_sockets(request)
    _watch_parent(request)
    with ExitStack() as closing:
        try:
            write_result(request, found(closing))
        except BaseException as error:  # noqa: BLE001  # what the user's code raises is the result
            misused = isinstance(error, NetpipeError) and not isinstance(error, LoaderFailedError)
            kind, message = ("misuse", str(error)) if misused else ("failed", told(error))
            write_result(request, error_document(kind, message))


def tell_of_import(request: SessionRequest, target: str) -> None:
    """Say that a target is imported: that can take long, and can fail."""
    Teller(progress_file(request), MonotonicClock()).doing(f"importing {target}")


def _watch_parent(request: SessionRequest) -> None:
    """End this session when nobody waits for its result any more: it would use the machine."""

    def look() -> None:
        while not is_abandoned(request):
            time.sleep(_LOOK_S)
        leave(request)

    if request.parent is not None:
        threading.Thread(target=look, name="netpipe-parent-watch", daemon=True).start()


def _found(request: SessionRequest, factories: Factories, closing: ExitStack) -> dict[str, Any]:
    if request.kind == "lint":
        from netpipe.harness.linting import linted_loader

        return {"lint": linted_loader(request, factories.loader)}
    # Before, since a refusal must not take minutes; after, since more was imported meanwhile.
    check_origin(request.code_from, request.not_from)
    return _measure(request, factories, closing)


def _measure(request: SessionRequest, factories: Factories, closing: ExitStack) -> dict[str, Any]:
    from netpipe.grain_workers import let_grain_start_workers
    from netpipe.harness.kept_trace import TraceTarget
    from netpipe.harness.protocol import Place, measure
    from netpipe.harness.rounds import Subject
    from netpipe.harness.training import late_reading_loop

    let_grain_start_workers()
    device_of, step = _device_and_step(request, factories)
    place = Place(device_of, _host(), _versions())
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
    request: SessionRequest, factories: Factories
) -> tuple[Callable[[int], Device], Callable[[], Any]]:
    emulated = parse_accelerator(request.accelerator)
    if emulated is not None:
        return _emulated(emulated, request, factories)
    if factories.step is None:
        raise MisuseError("a step must be given, unless the accelerator is emulated; found none")
    from netpipe.harness.device import local_device

    return local_device, factories.step


def _emulated(
    emulated: Emulated, request: SessionRequest, factories: Factories
) -> tuple[Callable[[int], Device], Callable[[], Any]]:
    from netpipe.harness.emulated import EmulatedStep

    flops: Flops = next(
        (one for one in (request.flops_per_step, factories.flops_per_step) if one is not None),
        getattr(factories.step, "flops_per_step", None),
    )
    step_s, kind = emulated.timed(flops, request.mfu)
    step = EmulatedStep(step_s, factories.step, emulated.copy_bytes_per_s)
    return (
        lambda _: Device(emulated.key, kind, "emulated", emulated.count),
        lambda: (step.initial_state(), step),
    )


def _host() -> Any:
    from netpipe.harness.host import this_host

    return this_host()


def _versions() -> dict[str, str]:
    return {"python": python_version(), **{name: version(name) for name in _PACKAGES}}


def main() -> None:
    """Run the session that this process was started for, with targets as its subject."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--loader", required=True)
    parser.add_argument("--step")
    parser.add_argument("--loop")
    arguments = parser.parse_args()
    request = request_here()
    if request is None:
        parser.error("this module is started by netpipe, not by hand")

    def found(closing: ExitStack) -> dict[str, Any]:
        tell_of_import(request, arguments.loader)
        factories = Factories(
            loader=resolve(arguments.loader),
            step=resolve(arguments.step) if arguments.step else None,
            loop=resolve(arguments.loop) if arguments.loop else None,
        )
        return _found(request, factories, closing)

    answer(request, found)


if __name__ == "__main__":
    main()
