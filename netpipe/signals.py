"""Exceptions instead of the signals that end a process, so that it cleans up first."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

_ENDING: Final = (signal.SIGTERM, signal.SIGHUP)


@contextmanager
def signals_as_errors(
    make_error: Callable[[int], BaseException | None] = lambda number: SystemExit(128 + number),
) -> Iterator[None]:
    """Turn SIGTERM and SIGHUP into the exception that `make_error` returns for their number.

    The signal is ignored if it returns None. This does nothing outside the main thread, and nothing
    for a signal that is ignored, as under nohup, or that already has a handler.
    """
    is_main = threading.current_thread() is threading.main_thread()
    taken = [each for each in _ENDING if is_main and signal.getsignal(each) is signal.SIG_DFL]

    is_ending = False

    def end(number: int, _: object) -> None:
        nonlocal is_ending
        if not is_ending and (error := make_error(number)):
            is_ending = True  # A second error would end the cleaning up.
            raise error

    for each in taken:
        signal.signal(each, end)
    try:
        yield
    finally:
        for each in taken:
            if signal.getsignal(each) is end:
                signal.signal(each, signal.SIG_DFL)
