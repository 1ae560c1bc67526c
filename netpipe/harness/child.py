"""What runs inside a session's process: measure or lint, write one result, end in any case."""

import argparse
import json
import sys
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from platform import python_version
from typing import Any, Final

from netpipe.errors import NetpipeError
from netpipe.harness.clock import MonotonicClock
from netpipe.harness.emulated import EmulatedStep, parse_accelerator
from netpipe.harness.errors import MisuseError
from netpipe.harness.measurement import Device
from netpipe.harness.session import (
    SCHEMA,
    SessionRequest,
    is_abandoned,
    leave,
    request_here,
)
from netpipe.harness.targets import resolve

_FIRST_BATCH = 3.0  # the first batch may take so many times the limit: workers start
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
    """

    loader: Callable[[], Any]
    step: Callable[[], Any] | None = None
    loop: Callable[..., object] | None = None
    synthetic: Callable[[], Any] | None = None
    fingerprint: str = ""


def serve(request: SessionRequest, factories: Factories) -> None:
    """Do what the session was asked for and write its result; no exception gets out."""
    _watch_parent(request)
    _answer(request, lambda: factories)


def _watch_parent(request: SessionRequest) -> None:
    """End this session when nobody waits for its result any more: it would use the machine."""

    def look() -> None:
        while not is_abandoned(request):
            time.sleep(_LOOK_S)
        leave(request)

    if request.parent is not None:
        threading.Thread(target=look, name="netpipe-parent-watch", daemon=True).start()


def _answer(request: SessionRequest, made: Callable[[], Factories]) -> None:
    try:
        factories = made()
        if request.kind == "lint":
            document = {"lint": _lint(request, factories.loader)}
        else:
            document = {"measurement": _measure(request, factories)}
    except NetpipeError as error:
        document = _error("misuse", str(error))
    except Exception:  # noqa: BLE001  # whatever the user's code raises is the result
        document = _error("failed", traceback.format_exc().strip())
    _write(request, document)


def _error(kind: str, message: str) -> dict[str, Any]:
    return {"error": {"kind": kind, "message": message}}


def _write(request: SessionRequest, document: dict[str, Any]) -> None:
    result = Path(request.result)
    part = result.with_suffix(".part")
    part.write_text(json.dumps({"schema": SCHEMA, **document}, allow_nan=False), encoding="utf-8")
    part.replace(result)


def _lint(request: SessionRequest, loader: Callable[[], Any]) -> dict[str, Any]:
    from netpipe.harness.ordering import lint

    document: dict[str, Any] = lint(loader(), request.intent).to_document()
    return document


def _measure(request: SessionRequest, factories: Factories) -> dict[str, Any]:
    from netpipe.grain_workers import let_grain_start_workers
    from netpipe.harness.protocol import Place, measure
    from netpipe.harness.rounds import Subject
    from netpipe.harness.training import late_reading_loop

    let_grain_start_workers()
    device_of, step = _device_and_step(request, factories.step)
    place = Place(device_of, _host(), _versions())
    with _BatchWatch(request) as watch:
        subject = Subject(
            factories.loader,
            step,
            factories.loop or late_reading_loop,
            factories.synthetic,
            factories.fingerprint,
        )
        return measure(
            subject, place, request.budget_s, MonotonicClock(), watch.waiting
        ).to_document()


def _device_and_step(
    request: SessionRequest, step: Callable[[], Any] | None
) -> tuple[Callable[[int], Device], Callable[[], Any]]:
    emulated = parse_accelerator(request.accelerator)
    if emulated is not None:
        stand_in = EmulatedStep(emulated.step_s, step)
        return (
            lambda _: Device(emulated.key, emulated.name, "emulated"),
            lambda: (stand_in.initial_state(), stand_in),
        )
    if step is None:
        raise MisuseError("a step must be given, unless the accelerator is emulated; found none")
    from netpipe.harness.device import local_device

    return local_device, step


def _host() -> Any:
    from netpipe.harness.host import this_host

    return this_host()


def _versions() -> dict[str, str]:
    return {"python": python_version(), **{name: version(name) for name in _PACKAGES}}


class _BatchWatch:
    """Ends the session when its loader gives no batch for too long, saying where it hangs."""

    def __init__(self, request: SessionRequest) -> None:
        self._request = request
        self._clock = MonotonicClock()
        self._since_s: float | None = None
        self._batches = 0
        self._over = threading.Event()
        self._main = threading.get_ident()

    def __enter__(self) -> "_BatchWatch":
        threading.Thread(target=self._look, name="netpipe-batch-watch", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()

    def waiting(self, since_s: float | None) -> None:
        """Note that a batch was asked for, or that it came (None)."""
        self._batches += since_s is None
        self._since_s = since_s

    def _look(self) -> None:
        while not self._over.wait(_LOOK_S):
            since_s = self._since_s
            limit_s = self._request.batch_limit_s * (1 if self._batches else _FIRST_BATCH)
            if since_s is not None and self._clock() - since_s > limit_s:
                self._give_up(limit_s)

    def _give_up(self, limit_s: float) -> None:
        frame = sys._current_frames().get(self._main)  # noqa: SLF001  # the documented way
        where = "".join(traceback.format_stack(frame)[-3:]).rstrip()
        message = (
            f"the loader gave no batch for {limit_s:g} s after {self._batches} batches: it hangs, "
            f"or an exception ended one of its own threads. The main thread is at\n{where}"
        )
        _write(self._request, _error("hang", message))
        leave(self._request)


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
    _watch_parent(request)
    _answer(
        request,
        lambda: Factories(
            loader=resolve(arguments.loader),
            step=resolve(arguments.step) if arguments.step else None,
            loop=resolve(arguments.loop) if arguments.loop else None,
        ),
    )


if __name__ == "__main__":
    main()
