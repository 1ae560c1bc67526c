"""What a session is asked to do, as it travels in the variable NETPIPE_SESSION."""

import json
import os
from dataclasses import asdict, dataclass, fields
from math import inf
from typing import Final, Self

from netpipe.device.emulated_names import parse_accelerator
from netpipe.errors import InputError, MisuseError
from netpipe.text_files import quote

REQUEST_VARIABLE: Final = "NETPIPE_SESSION"
OVERTIME_S: Final = 10.0
"""Seconds beyond its budget after which a measurement is ended."""
START_UP_S: Final = 600.0
"""Seconds to load the model, and to compile and warm up its step: minutes on a GPU."""
FAREWELL_S: Final = 5.0
"""Seconds from a written result to the end of the process."""

_IMPORT_S: Final = 60.0


@dataclass(frozen=True)
class SessionRequest:
    """What every session needs to know; a job with settings of its own has a subclass.

    Attributes:
        kind: The job: "measure", "lint", or another that its own command knows.
        accelerator: "auto" or an emulated one; with the latter, jax gets no real device.
        budget_s: Seconds for the measured rounds.
        batch_limit_s: Seconds without a batch after which a loader counts as hung.
        start_limit_s: Seconds until the first batch must be there, each time the loader starts.
        code_from: The checkout whose code is run; "" for any. See `check_origin`.
        not_from: Other checkouts of its repository, from which no file may be loaded.
        parent: The process that waits for the result; None when nobody does.
        time_left_s: Seconds that the caller has left for this session. The parent enforces them,
            and they are not sent to the child.
        channel: The file descriptor of the connection to a parent that gives orders; -1: none.
    """

    kind: str
    result: str = ""
    accelerator: str = "auto"
    budget_s: float = 20.0
    batch_limit_s: float = 10.0
    start_limit_s: float = 600.0
    code_from: str = ""
    not_from: tuple[str, ...] = ()
    parent: int | None = None
    time_left_s: float = inf
    channel: int = -1

    def __post_init__(self) -> None:
        parse_accelerator(self.accelerator)
        object.__setattr__(self, "not_from", tuple(self.not_from))  # JSON has lists only
        for name in ("budget", "batch limit", "start limit"):
            limit_s: float = getattr(self, f"{name.replace(' ', '_')}_s")
            if not 0 < limit_s < inf:
                raise MisuseError(
                    f"the {name} must be above 0 seconds, and finite; found {limit_s:g}"
                )

    @classmethod
    def from_environment(cls) -> Self | None:
        """Read this process's request; None when the process is not a session.

        Another version of netpipe may have sent it, so unknown values are ignored.

        Raises:
            InputError: The variable holds something else; somebody has set it by hand.
        """
        text = os.environ.get(REQUEST_VARIABLE)
        if not text:
            return None
        known = {field.name for field in fields(cls)}
        try:
            return cls(**{name: value for name, value in json.loads(text).items() if name in known})
        except (ValueError, TypeError, AttributeError, RecursionError) as error:
            raise InputError(
                REQUEST_VARIABLE, "the variable", "be what netpipe gives its own processes",
                quote(text), "Unset it",
            ) from error  # fmt: skip

    def to_json(self) -> str:
        """Write the values that differ from their defaults, which every version may know."""
        defaults = asdict(type(self)(self.kind))
        values = {name: value for name, value in asdict(self).items() if value != defaults[name]}
        values.pop("time_left_s", None)
        return json.dumps({"kind": self.kind, **values})

    @property
    def result_key(self) -> str:
        """The key of the result in the document that the session writes."""
        return self.kind

    @property
    def limit_s(self) -> float:
        """Seconds after which the parent ends the session."""
        return min(self.time_left_s, self._own_limit_s)

    @property
    def _own_limit_s(self) -> float:
        # A loader that ends is started again during the rounds.
        around_s = _IMPORT_S + START_UP_S + 2 * self.start_limit_s + FAREWELL_S
        return around_s + self.budget_s + OVERTIME_S
