"""A second process that pulls from the same loader.

The process imports this module before it sets its environment for jax, so keep imports light here.
"""

import os
from collections.abc import Callable
from contextlib import closing, suppress
from multiprocessing import get_context, set_start_method
from typing import TYPE_CHECKING, Any, Final

import psutil

from netpipe.errors import SessionError
from netpipe.jobs.processes import is_resource_tracker
from netpipe.measuring.loader_puller import MAX_EXTENSION

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from netpipe.diagnosis.experiments.pulling_threads import PullCost
    from netpipe.jobs.targets import Target

_FAREWELL_S: Final = 5.0
# Added to the longest block, because a slow batch is not cut short.
_GRACE_S: Final = 20.0


class SecondProcess:
    """A process that runs the same loader in one thread; raises a SessionError if that fails."""

    def __init__(self, target: "Target", start_limit_s: float = 60.0) -> None:
        self._target = target
        self._start_limit_s = start_limit_s

    def __enter__(self) -> "SecondProcess":
        context = get_context("spawn")
        self._pipe, other_end = context.Pipe()
        self._process = context.Process(target=_serve, args=(self._target, other_end))
        self._process.start()
        other_end.close()
        try:
            self._receive(self._start_limit_s)
        except BaseException:
            self._end(0.0)
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._end(_FAREWELL_S)

    def start_pulling(self, min_s: float) -> "Callable[[], PullCost]":
        """Let the process pull for a while; return a function that waits for its result."""
        # If the process has ended, receiving its answer raises the error.
        with suppress(OSError):
            self._pipe.send(min_s)
        return lambda: self._receive(MAX_EXTENSION * min_s + _GRACE_S)

    def _receive(self, limit_s: float) -> Any:
        how = f"gave no answer for {limit_s:g} s"
        with suppress(EOFError, OSError):
            if self._pipe.poll(limit_s):
                how = "ended"
                answer = self._pipe.recv()
                if not isinstance(answer, str):
                    return answer
                how = f"failed: {answer}"
        # Otherwise the process would compete for cores with the other measurements.
        self._end(0.0)
        raise SessionError(f"a second process with the same loader {how}")

    def _end(self, farewell_s: float) -> None:
        """Let the process stop its loader; after `farewell_s`, kill it and its children."""
        self._pipe.close()
        # A process that has already been ended is closed, and raises a ValueError.
        with suppress(ValueError):
            self._process.join(farewell_s)
            with suppress(psutil.NoSuchProcess):
                for child in psutil.Process(self._process.pid).children(recursive=True):
                    # The tracker still has to remove the shared memory of the others.
                    if not is_resource_tracker(child.pid):
                        child.kill()
            self._process.kill()
            self._process.join()
            self._process.close()


def _serve(target: "Target", pipe: "Connection[Any, Any]") -> None:
    """Pull whenever the parent asks; send the cost, or the loader's error."""
    os.environ["JAX_PLATFORMS"] = "cpu"
    from netpipe.clock import Clock
    from netpipe.diagnosis.experiments.pulling_threads import PullingThread
    from netpipe.grain_access.loader_variants import single_thread_variant
    from netpipe.grain_access.worker_start import let_grain_start_workers
    from netpipe.jobs.bounded_calls import summarize_error
    from netpipe.jobs.registry import make_factory

    try:
        # Clear the parent's start method: the user's module can set one only if none is set.
        set_start_method(None, force=True)
        let_grain_start_workers()
        loader, _ = single_thread_variant(make_factory(target))
        puller = PullingThread(loader, Clock(), undelayed=True)
        # A closed pipe raises these; the puller wraps every error of the loader in its own type.
        with closing(puller), suppress(EOFError, ConnectionError):
            pipe.send(None)
            while True:
                pipe.send(puller.start_pulling(pipe.recv())())
    except Exception as error:  # noqa: BLE001  # the user's code may raise anything
        pipe.send(summarize_error(error))
