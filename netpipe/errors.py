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
