"""Call functions in other threads, with a time limit or one after another."""

from collections.abc import Callable
from concurrent.futures import Future, wait
from contextlib import suppress
from queue import SimpleQueue
from threading import TIMEOUT_MAX, Thread
from typing import Final, TypeVar

import psutil

from netpipe.errors import HangError, NetpipeError, describe_error
from netpipe.jobs.processes import ProcessTree

Result = TypeVar("Result")

# Grain checks once a second whether its workers are still running.
_FAREWELL_S: Final = 3.0


def call_within(
    work: Callable[[], Result], limit_s: float, grace_s: Callable[[], float] = lambda: 0.0
) -> Result:
    """Call a function in a daemon thread and wait for it for a limited time.

    At the limit, `grace_s` is called for extra seconds to wait. After these, the processes that the
    call started are killed, which usually ends the call.

    Raises:
        HangError: The call did not end in time.
        Exception: Any error that the call raised.
    """
    before = ProcessTree().worker_pids
    done = call_in_thread(work)
    if not wait([done], min(limit_s, TIMEOUT_MAX)).done and not wait([done], grace_s()).done:
        for pid in set(ProcessTree().worker_pids).difference(before):
            with suppress(psutil.NoSuchProcess):
                psutil.Process(pid).kill()
        wait([done], _FAREWELL_S)
        raise HangError(f"it did not end within {limit_s:g} s")
    return done.result()


def call_in_thread(work: Callable[[], Result]) -> "Future[Result]":
    """Call a function in a daemon thread, which does not delay the end of the program."""
    thread = CallingThread("netpipe-bounded")
    done = thread.submit(work)
    thread.end()
    return done


class CallingThread:
    """A daemon thread that makes calls in order.

    Calls may fork. In a ThreadPoolExecutor's thread, a forked process would end with exit code 1,
    because it would try to join its own thread.
    """

    def __init__(self, name: str) -> None:
        self._calls = SimpleQueue[Callable[[], None] | None]()
        self._thread = Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while (call := self._calls.get()) is not None:
            call()

    def submit(self, work: Callable[[], Result]) -> "Future[Result]":
        """Queue a function to call after the earlier ones; return a future for its result."""
        done: Future[Result] = Future()

        def settle() -> None:
            try:
                done.set_result(work())
            except BaseException as error:  # noqa: BLE001  # re-raised in the waiting thread
                done.set_exception(error)

        self._calls.put(settle)
        return done

    def end(self, limit_s: float = 0.0) -> None:
        """End the thread after the calls so far, and wait up to `limit_s` seconds for it."""
        self._calls.put(None)
        self._thread.join(limit_s)


def summarize_error(error: Exception) -> str:
    """Return the first line of an error, with its type unless the error is our own."""
    text = str(error) if isinstance(error, NetpipeError) else describe_error(error)
    return text.partition("\n")[0]
