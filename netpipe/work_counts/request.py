"""What a session that counts work is asked for."""

from dataclasses import dataclass

from netpipe.errors import MisuseError
from netpipe.session.request import SessionRequest


@dataclass(frozen=True)
class WorkRequest(SessionRequest):
    """The settings of one count, over so many batches after the first ones."""

    kind: str = "work"
    batches: int = 16

    def __post_init__(self) -> None:
        """Check the values that a user can set."""
        super().__post_init__()
        if self.batches < 1:
            raise MisuseError(f"the number of batches must be above 0; found {self.batches}")
