"""The errors of netpipe."""

from dataclasses import dataclass
from typing import Final

_MAX_TEXT: Final = 10_000  # characters


class NetpipeError(Exception):
    """An error whose message is shown to the user without a traceback."""


@dataclass(eq=False)
class InputError(NetpipeError):
    """A file, a folder or a setting violates a constraint."""

    where: object  #: The file, folder or option that holds the value.
    field: str  #: The wrong column, key or aspect.
    constraint: str  #: The constraint on the value, worded to follow "must".
    found: object
    way_out: str = ""  #: A sentence about what the user can do.

    def __str__(self) -> str:
        message = f"{self.where}: {self.field} must {self.constraint}; found {self.found}"
        return f"{message}. {self.way_out}" if self.way_out else message


class HarnessError(NetpipeError):
    """The harness cannot make a measurement."""


class MisuseError(HarnessError):
    """A loader, a step, a loop or a setting is unsuitable."""


class LoaderEndedError(MisuseError):
    """A finite loader has ended and cannot be started again."""


class SessionError(HarnessError):
    """A session's process ended without a result: it crashed, hung or ran out of time."""


class OutOfTimeError(SessionError):
    """The time limit of several sessions is reached."""


class NoSuchTestError(SessionError):
    """The test of a session does not exist."""


class HangError(SessionError):
    """A loader gave no batch for longer than the limit."""


class LoaderFailedError(SessionError):
    """A loader raised an exception, which is the cause of this error, instead of giving a batch."""


class PipelineTooSlowError(NetpipeError, AssertionError):
    """A measured pipeline does not meet its test's limits; the harness itself works."""


class PipelineOrderError(NetpipeError, AssertionError):
    """The order of a pipeline's transforms costs speed or data."""


class PipelineElementsError(NetpipeError, AssertionError):
    """A pipeline omits, repeats or changes elements."""


class InconclusiveError(NetpipeError):
    """A measurement cannot decide a test, so the test neither passes nor fails."""


def first_line(error: BaseException) -> str:
    """Return the first line of an exception's text, or its type if it has no text."""
    return str(error).strip().partition("\n")[0] or type(error).__name__


def describe_error(error: BaseException) -> str:
    """Return the type and text of an exception, even if its class is faulty user code."""
    try:
        text = str(error)
    except Exception:  # noqa: BLE001  # __str__ may be the user's code
        text = "<its text cannot be read>"
    text = text if len(text) <= _MAX_TEXT else f"{text[:_MAX_TEXT]}..."
    return f"{type(error).__name__}: {text}"
