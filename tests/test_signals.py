"""SIGTERM and SIGHUP become exceptions unless they have another handler."""

import os
import signal
import threading
from collections.abc import Iterator

import pytest

from netpipe.signals import signals_as_errors

ENDING = [signal.SIGTERM, signal.SIGHUP]


@pytest.fixture(autouse=True)
def free() -> Iterator[None]:
    """Reset the handlers of both signals."""
    before = [signal.signal(each, signal.SIG_DFL) for each in ENDING]
    yield
    for each, handler in zip(ENDING, before, strict=True):
        signal.signal(each, handler)


@pytest.mark.parametrize("number", ENDING)
def test_a_signal_is_an_error(number: signal.Signals) -> None:
    """The error has the signal's number, and a second signal does not disturb the cleanup."""
    with pytest.raises(SystemExit) as caught, signals_as_errors(SystemExit):  # noqa: PT012
        try:
            os.kill(os.getpid(), number)
        finally:
            for each in ENDING:
                os.kill(os.getpid(), each)
    assert caught.value.code == number
    assert [signal.getsignal(each) for each in ENDING] == [signal.SIG_DFL] * 2


def test_two_signals_at_once_are_one_error() -> None:
    """A second signal at the same time is not reported as another error."""
    with pytest.raises(SystemExit), signals_as_errors(SystemExit):  # noqa: PT012
        signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
        try:
            for each in ENDING:
                signal.raise_signal(each)  # to this thread: another one may not block it
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
        pytest.fail("no signal was an error")


def test_nohup_is_respected() -> None:
    """An ignored signal stays ignored, and the other signal is an error."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with pytest.raises(SystemExit), signals_as_errors(SystemExit):  # noqa: PT012
        os.kill(os.getpid(), signal.SIGHUP)
        os.kill(os.getpid(), signal.SIGTERM)
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


def test_another_handler_is_respected() -> None:
    """A handler that is set before or within the block stays."""
    got: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: got.append(number))
    with signals_as_errors(SystemExit):
        signal.signal(signal.SIGHUP, lambda number, _: got.append(number))
        for each in ENDING:
            os.kill(os.getpid(), each)
    for each in ENDING:
        os.kill(os.getpid(), each)
    assert got == 2 * ENDING


def test_other_threads_change_nothing() -> None:
    """Only the main thread can set a handler."""
    handlers: list[object] = []

    def enter() -> None:
        with signals_as_errors(SystemExit):
            handlers.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    assert handlers == [signal.SIG_DFL]
