"""Signals that end a process.

They become exceptions, so that the process can clean up. A process can also ask to be sent a signal
when its parent ends, or to be sent none by its terminal.
"""

import ctypes
import fcntl
import os
import signal
import termios
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

_ENDING: Final = (signal.SIGTERM, signal.SIGHUP)
_SET_PARENT_DEATH_SIGNAL: Final = 1  # PR_SET_PDEATHSIG of the kernel's prctl.h
_prctl: Final = ctypes.CDLL(None).prctl


@contextmanager
def signals_as_errors(
    make_error: Callable[[int], BaseException | None] = lambda number: SystemExit(128 + number),
) -> Iterator[None]:
    """Turn SIGTERM and SIGHUP into the exception that `make_error` returns for their number.

    A signal is ignored if `make_error` returns None. Signals that are already ignored (nohup) or
    handled are left alone, and outside the main thread all signals are.
    """
    is_main = threading.current_thread() is threading.main_thread()
    taken = [each for each in _ENDING if is_main and signal.getsignal(each) is signal.SIG_DFL]

    is_ending = False

    def end(number: int, _: object) -> None:
        nonlocal is_ending
        if not is_ending and (error := make_error(number)):
            is_ending = True  # A second error would interrupt the cleanup.
            raise error

    for each in taken:
        signal.signal(each, end)
    try:
        yield
    finally:
        for each in taken:
            if signal.getsignal(each) is end:
                signal.signal(each, signal.SIG_DFL)


def signal_when_parent_ends(number: int) -> None:
    """Have the kernel signal this process when its parent ends, even if the parent is killed."""
    _prctl(_SET_PARENT_DEATH_SIGNAL, ctypes.c_ulong(number))


def leave_terminal() -> None:
    """Give up this process's terminal: ioctl_tty(2). The leader of a Unix session keeps it.

    A process in the background is stopped if it asks for a password at its terminal. Without one,
    asking fails.
    """
    if os.getsid(0) == os.getpid():
        return  # It would take the terminal from all processes of its session.
    with suppress(OSError):  # There is no terminal.
        terminal = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY)
        try:
            fcntl.ioctl(terminal, termios.TIOCNOTTY)
        finally:
            os.close(terminal)
