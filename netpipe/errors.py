"""What every error of netpipe derives from, and the one for bad input."""


class NetpipeError(Exception):
    """An error whose message is meant for the user: one line, no traceback needed."""


class InputError(NetpipeError):
    """A file, a folder or a setting is not what it must be.

    Args:
        where: The file, folder or option that holds the value.
        field: The column, key or aspect of it that is wrong.
        constraint: What it must be, worded to follow "must".
        found: The value found, as it is shown to the user.
        way_out: What the user can do about it, as a sentence.
    """

    def __init__(
        self, where: object, field: str, constraint: str, found: object, way_out: str = ""
    ) -> None:
        message = f"{where}: {field} must {constraint}; found {found}"
        super().__init__(f"{message}. {way_out}" if way_out else message)
        self.where = where
        self.field = field
        self.constraint = constraint
        self.found = found
        self.way_out = way_out

    def __reduce__(self) -> tuple[object, ...]:
        """Let it cross from a worker process; by default only the message would."""
        given = (self.where, self.field, self.constraint, self.found, self.way_out)
        return type(self), given


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
