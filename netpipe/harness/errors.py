"""The errors of the harness: a misused harness is one type, a slow pipeline is another."""

from netpipe.errors import NetpipeError


class HarnessError(NetpipeError):
    """Something the harness cannot measure or go on from."""


class MisuseError(HarnessError):
    """What was handed to the harness is not what it asks for."""


class LoaderEndedError(MisuseError):
    """A finite loader has ended and cannot be started again; what it gave is all there is."""


class SessionError(HarnessError):
    """A session's process ended without a result: it crashed, hung or ran out of time."""


class OutOfTimeError(SessionError):
    """The time that several sessions have together is over."""


class NoSuchTestError(SessionError):
    """A session was to measure what a test asks for, and there is no such test."""


class HangError(SessionError):
    """A loader gave no batch for longer than the limit."""


class LoaderFailedError(SessionError):
    """A loader raised an exception instead of a batch; that exception is the cause."""


class PipelineTooSlowError(NetpipeError, AssertionError):
    """A measured pipeline misses what its test asks for. Not an error of the harness."""


class PipelineOrderError(NetpipeError, AssertionError):
    """The calls of a pipeline stand in an order that costs speed or data."""


class InconclusiveError(NetpipeError):
    """A measurement that leaves open what its test asks. Neither passed nor failed."""
