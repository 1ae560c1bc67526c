"""Work that must end: in a thread of its own, which is left behind when it does not."""

from collections.abc import Callable
from concurrent.futures import Future, wait
from contextlib import suppress
from threading import Thread
from typing import Final, TypeVar

import psutil

from netpipe.errors import HangError, NetpipeError
from netpipe.session.processes import ProcessTree

Result = TypeVar("Result")

_FAREWELL_S: Final = 3.0  # for a loader to notice that its workers are gone: Grain looks every 1 s


def call_within(
    work: Callable[[], Result], limit_s: float, grace_s: Callable[[], float] = lambda: 0.0
) -> Result:
    """Do some work, and wait for it so long and no longer.

    The processes that work has started which does not end are killed, and as a rule it ends then.

    Args:
        work: What to do; it runs in a daemon thread.
        limit_s: Seconds.
        grace_s: Asked once they are over for the seconds to wait beyond them.

    Returns:
        What the work returned.

    Raises:
        HangError: It did not end in time.
        Exception: What the work raised.
    """
    others = ProcessTree().worker_pids
    done: Future[Result] = Future()
    Thread(target=_settle, args=(done, work), name="netpipe-bounded", daemon=True).start()
    if not wait([done], limit_s).done and not wait([done], grace_s()).done:
        for pid in set(ProcessTree().worker_pids).difference(others):
            with suppress(psutil.NoSuchProcess):
                psutil.Process(pid).kill()
        wait([done], _FAREWELL_S)
        raise HangError(f"it did not end within {limit_s:g} s")
    return done.result()


def _settle(done: "Future[Result]", work: Callable[[], Result]) -> None:
    try:
        done.set_result(work())
    except BaseException as error:  # noqa: BLE001  # it is whose who waits
        done.set_exception(error)


def summarize_error(error: Exception) -> str:
    """Return what is to be said of an error where there is a line for it."""
    text = str(error) if isinstance(error, NetpipeError) else f"{type(error).__name__}: {error}"
    return text.partition("\n")[0]
